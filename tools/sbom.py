# SPDX-License-Identifier: Apache-2.0
"""The libraries that a build of mete links and the parts of its source that are others', as an SPDX 2.3 document, for tools/dist.

meson tells which libraries there are, and in which version; the programs themselves tell which of them they link."""
import json
import os
import re
import subprocess
import time

# Of meson's name of a library: its name in the linker's words (or several), its licence, where it is from.
LIBRARIES = {
    "libuv": ("libuv.so", "MIT", "https://libuv.org/"),
    "libcjson": ("libcjson.so", "MIT", "https://github.com/DaveGamble/cJSON"),
    "libnghttp2": ("libnghttp2.so", "MIT", "https://nghttp2.org/"),
    "libprotobuf-c": ("libprotobuf-c.so", "BSD-2-Clause", "https://github.com/protobuf-c/protobuf-c"),
    "libcurl": ("libcurl.so", "curl", "https://curl.se/"),
    "libmicrohttpd": ("libmicrohttpd.so", "LGPL-2.1-or-later", "https://www.gnu.org/software/libmicrohttpd/"),
    "gnutls": ("libgnutls.so", "LGPL-2.1-or-later", "https://www.gnutls.org/"),
    "yaml-0.1": ("libyaml-0.so", "MIT", "https://pyyaml.org/wiki/LibYAML"),
    "ncursesw": (("libncursesw.so", "libtinfo.so"), "X11", "https://invisible-island.net/ncurses/"),
    "cmocka": ("libcmocka.so", "Apache-2.0", "https://cmocka.org/"),
}
OTHERS = {"threads", "dl", "m"}  # meson's names of parts of the C library
C_LIBRARY = ("glibc", "LGPL-2.1-or-later", "https://www.gnu.org/software/libc/")
OF_C = ("libc.so", "libdl.so", "libm.so", "libpthread.so", "librt.so", "ld-linux", "libgcc_s.so")
# Programs and libraries that are shipped, by path in the build.
SHIPPED = ("cli/mete", "node/meted", "plugin/libmete-plugin.so", "page/libmete-page.so", "plugin/nvidia-device-plugin", "hook/mete-hook", "guest/12.9/libmete.so",
           "sim/12.9/libcuda.so.1", "sim/12.9/libnvidia-ml.so.1", "sim/nvidia-smi", "sim/nvidia-cuda-mps-control", "sim/mete-sim")
# In the source, of others: (folder, name, licence, where from, whose).
INCLUDED = (("bench/data/openb", "cluster-trace-gpu-v2023", "Apache-2.0", "https://github.com/hkust-adsl/kubernetes-scheduler-simulator",
             "Alibaba Group; The Hong Kong University of Science and Technology"),)


def said(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def linked(path):
    """Sonames that a program needs; empty for one that is static."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]", said("readelf", "-d", path))


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", name)


def package(name, version, licence, home, **more):
    return {"SPDXID": identifier(name), "name": name, "versionInfo": version, "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", "downloadLocation": home, "filesAnalyzed": False, **more}


def libraries(build):
    """{name: version} of what meson found; an unknown one has no row here, and is not guessed."""
    found = {row["name"]: row["version"] for row in json.loads(said("meson", "introspect", "--dependencies", build))}
    unknown = set(found) - set(LIBRARIES) - OTHERS
    if unknown:
        raise SystemExit(f"tools/sbom.py: {sorted(unknown)[0]}: LIBRARIES has no row with its licence")
    return {name: version for name, version in found.items() if name in LIBRARIES}


def relation(one, kind, other):
    return {"spdxElementId": identifier(one), "relationshipType": kind, "relatedSpdxElement": identifier(other)}


def program_name(path):
    """In identifiers: one of them is called mete, as the whole is."""
    return "program " + os.path.basename(path)


def of_program(build, path, names):
    """What this program links, as relations."""
    program = program_name(path)
    needs = linked(os.path.join(build, path))
    yield relation("mete", "GENERATES", program)
    yield relation(program, "DYNAMIC_LINK" if needs else "STATIC_LINK", "glibc")
    found = []
    for soname in needs:
        if soname.startswith(OF_C) or soname == "libnvidia-ml.so.1":
            continue
        name = next((name for name in names if soname.startswith(LIBRARIES[name][0])), None)
        if not name:
            raise SystemExit(f"tools/sbom.py: {path} needs {soname}: LIBRARIES has no row of it")
        found.append(name)
    for name in dict.fromkeys(found):
        yield relation(program, "DYNAMIC_LINK", name)


def describe(build, version, when, tarball, digest):
    names = libraries(build)
    glibc = re.search(r"(\d+\.\d+)$", said("getconf", "GNU_LIBC_VERSION").strip())[1]
    programs = [path for path in SHIPPED if os.path.exists(os.path.join(build, path))]
    missing = set(SHIPPED) - set(programs)
    if missing:
        raise SystemExit(f"tools/sbom.py: {build} has no {sorted(missing)[0]}")
    packages = [package("mete", version, "Apache-2.0", "https://mete.dev/", packageFileName=tarball, primaryPackagePurpose="SOURCE",
                        checksums=[{"algorithm": "SHA256", "checksumValue": digest}])]
    packages += [dict(package(os.path.basename(path), version, "Apache-2.0", "NOASSERTION",
                              primaryPackagePurpose="LIBRARY" if ".so" in path else "APPLICATION"), SPDXID=identifier(program_name(path)))
                 for path in programs]
    packages += [package(name, found, LIBRARIES[name][1], LIBRARIES[name][2], primaryPackagePurpose="LIBRARY") for name, found in sorted(names.items())]
    packages.append(package(C_LIBRARY[0], glibc, *C_LIBRARY[1:], primaryPackagePurpose="LIBRARY"))
    packages += [package(name, "NOASSERTION", licence, home, sourceInfo=f"in {folder}; of {whose}")
                 for folder, name, licence, home, whose in INCLUDED]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": identifier("mete")}]
    for path in programs:
        relations += of_program(build, path, names)
    relations += [relation("mete", "CONTAINS", name) for _, name, *_ in INCLUDED]
    if "cmocka" in names:
        relations.append(relation("cmocka", "TEST_DEPENDENCY_OF", "mete"))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"mete-{version}",
            "documentNamespace": f"https://mete.dev/spdx/mete-{version}-{digest[:32]}",
            "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)), "creators": [f"Tool: mete-dist-{version}"]},
            "packages": packages, "relationships": relations}
