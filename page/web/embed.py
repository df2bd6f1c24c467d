#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: embed.py HTML CSS JS... HEADER: one page with style and script in it, as a C array, and the content security policy
that lets it run these and nothing else. The files are used as they are."""
import base64
import hashlib
import os
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def source_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def main(html, css, *rest):
    scripts, header = rest[:-1], rest[-1]
    style, script = read(css), "".join(read(path) for path in scripts)
    page = read(html)
    for mark, text in (("/*STYLE*/", style), ("/*SCRIPT*/", script)):
        assert page.count(mark) == 1 and "</s" not in text, mark
        page = page.replace(mark, text)
    policy = "; ".join(("default-src 'none'", f"script-src {source_of(script)}", f"style-src {source_of(style)}", "connect-src 'self'",
                        "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"))
    data = page.encode()
    with open(header + ".new", "w") as out:
        out.write("/* Made by page/web/embed.py. */\n#pragma once\n\n")
        out.write(f'#define PAGE_POLICY "{policy}"\n\nstatic const char page_html[] = {{\n')
        for at in range(0, len(data), 24):
            out.write("".join(f"{byte if byte < 128 else byte - 256}," for byte in data[at:at + 24]) + "\n")
        out.write("};\n")
    os.replace(header + ".new", header)


if __name__ == "__main__":
    main(*sys.argv[1:])
