#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/site: all documents are pages, each link and each name within them is there, and nothing is asked of anybody else.

    TEST.py BUILD SOURCE"""
import glob
import html.parser
import os
import posixpath
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import Skipped, require, run  # noqa: E402


class Read(html.parser.HTMLParser):
    """What a browser finds on a page: names, links, and what it would fetch by itself."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.fetched, self.tags, self.text = [], [], [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.add(tag)
        self.names += [found["id"]] if "id" in found else []
        if tag == "a":
            self.links.append(found["href"])
        else:
            self.fetched += [found[key] for key in ("src", "href") if key in found]

    def handle_data(self, data):
        self.text += data


def built(folder):
    require("pypi")
    done = subprocess.run([os.path.join(ROOT, "tools", "site"), folder], text=True, capture_output=True)
    if done.returncode and "cannot be had" in done.stderr:
        raise Skipped(done.stderr.strip())
    assert done.returncode == 0, done
    return {os.path.relpath(path, folder): open(path, encoding="utf-8").read() for path in glob.glob(folder + "/**", recursive=True) if os.path.isfile(path)}


def test_all_documents_are_pages_and_every_link_leads_somewhere():
    with tempfile.TemporaryDirectory() as folder:
        files = built(folder)
        pages = {path: Read(text) for path, text in files.items() if path.endswith(".html")}
        written = [os.path.relpath(path, ROOT) for path in (*glob.glob(ROOT + "/docs/*.md"), *glob.glob(ROOT + "/docs/decisions/*.md"))]
        assert {path.removesuffix(".md") + ".html" for path in written} | {"index.html", "bench/RESULTS.html", "docs/decisions/index.html"} == set(pages)
        count = 0
        for at, page in pages.items():
            assert len(page.names) == len(set(page.names)), f"{at}: two headings have one name"
            assert not page.tags & {"script", "iframe", "object", "form"} and not any(re.match("[a-z]+:|//", one) for one in page.fetched), (at, page.fetched)
            assert "<!--" not in files[at], f"{at}: a comment is for tests of the text"
            for link in page.links:
                if re.match("https?://", link):
                    continue
                path, _, name = link.partition("#")
                to = posixpath.normpath(posixpath.join(posixpath.dirname(at), path)) if path else at
                assert to in files and (not name or name in pages[to].names), (at, link)
                count += 1
            assert all(posixpath.normpath(posixpath.join(posixpath.dirname(at), one)) in files for one in page.fetched), (at, page.fetched)
        assert count > 500, count


def test_pictures_are_where_documents_have_them_and_nothing_is_missed_without():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/pictures")
        for name in ("top.svg", "page-tenant.png", "nobody-wants-it.png"):
            with open(f"{folder}/pictures/{name}", "w") as file:
                file.write(name)
        require("pypi")
        done = subprocess.run([os.path.join(ROOT, "tools", "site"), "--pictures", folder + "/pictures", folder + "/site"], text=True, capture_output=True)
        assert done.returncode == 0, done
        assert sorted(os.listdir(folder + "/site/pictures")) == ["page-tenant.png", "top.svg"]
        for page, name, missing in (("start", "top.svg", "page-"), ("page", "page-tenant.png", "page-overview")):
            text = open(f"{folder}/site/docs/{page}.html").read()
            assert re.search(f'<img src="\\.\\./pictures/{name}" alt="[^"]+">', text) and missing not in text.replace("page-tenant", ""), (page, text)


def test_pictures_are_made_of_a_terminal_and_of_a_browser():
    require("browser")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([os.path.join(ROOT, "tools", "picture"), sys.argv[1], folder + "/", "3"], text=True, capture_output=True)
        assert done.returncode == 0 and not done.stderr, done
        made = {name: open(f"{folder}/{name}", "rb").read() for name in os.listdir(folder)}
        assert sorted(made) == ["page-devices.png", "page-overview.png", "page-tenant.png", "top.svg"]
        assert all(data.startswith(b"\x89PNG") for name, data in made.items() if name.endswith("png"))
        said = re.sub("<[^>]+>", " ", made["top.svg"].decode())
        # The history gives way to a sentence that is long at that moment.
        assert all(word in said for word in ("nightly", "training", "STATE", "DUE")), said


def test_each_alerts_runbook_is_where_its_address_says():
    with tempfile.TemporaryDirectory() as folder:
        files = built(folder)
        addresses = re.findall(r"runbook_url: https://mete\.dev/(\S+)#(\S+)", open(os.path.join(ROOT, "deploy/monitoring/rules.yaml")).read())
        assert len(addresses) > 10
        for path, name in addresses:
            assert name in Read(files[path + ".html"]).names, (path, name)


def test_a_text_stays_what_it_is():
    with tempfile.TemporaryDirectory() as folder:
        files = built(folder)
        start, first = files["docs/start.html"], files["index.html"]
        assert "<td><em>tenant</em></td>" in start and '<a href="../index.html#using-it">README</a>' in start, start
        # What has signs of HTML in it, a picture, and what only a test reads.
        assert "mete run --memory 4G -- train" in Read(first).text and '<img src="docs/demo.svg"' in first and "docs/demo.svg" in files, first
        assert "kubectl apply -f - &lt;&lt;'END'" in files["docs/kubernetes.html"]


def test_a_folder_that_has_other_files_is_left_alone():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/mine", "w"):
            pass
        done = subprocess.run([sys.executable, ROOT + "/tools/site", folder], text=True, capture_output=True)
        if done.returncode and "cannot be had" in done.stderr:
            raise Skipped(done.stderr.strip())
        assert done.returncode == 1 and f"{folder} has other files" in done.stderr and os.listdir(folder) == ["mine"], done


def test_a_link_that_leads_nowhere_is_named_and_nothing_is_written():
    require("pypi")
    texts = {"README.md": "# mete\n", "bench/RESULTS.md": "# Results\n", "docs/start.md": "# Start\n\n## Words\n\n## Words\n",
             "docs/README.md": "# Documents\n\n[a](start.md#words) [b](start.md#words-1) [c](start.md#gone) [d](gone.md) [e](decisions/)\n", "docs/decisions/0001-one.md": "# 1. One\n"}
    with tempfile.TemporaryDirectory() as place:
        for name in ("tools/site", "tools/needed.py", "tools/registries.py", "tests/cluster/go.mod"):
            with open(f"{ROOT}/{name}") as file:
                texts[name] = file.read()
        for name, text in texts.items():
            os.makedirs(os.path.dirname(f"{place}/tree/{name}"), exist_ok=True)
            with open(f"{place}/tree/{name}", "w") as file:
                file.write(text)
        done = subprocess.run([sys.executable, place + "/tree/tools/site", place + "/site"], text=True, capture_output=True)
        if done.returncode and "cannot be had" in done.stderr:
            raise Skipped(done.stderr.strip())
        assert done.returncode == 1 and done.stderr.splitlines() == ["tools/site: docs/README.md: gone.md leads nowhere", "tools/site: docs/README.md: start.md#gone leads nowhere"], done
        assert not os.path.exists(place + "/site")


if __name__ == "__main__":
    run(globals())
