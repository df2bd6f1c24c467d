# SPDX-License-Identifier: Apache-2.0
"""Reads cuda/api.def (and cuda/nvml.def), for programs that generate code from it.

    sys.path.insert(0, "SOURCE_ROOT/cuda")
    import api
    for row in api.load():              # in the order of the table, as enum api_index counts
        row.index                       # 0, 1, ...
        row.base, row.symbol            # "cuMemAlloc", "cuMemAlloc_v2"
        row.version, row.stream         # 3020, "PLAIN" | "PTDS" | "PTSZ"
        row.klass, row.reason           # "ALLOC", "NONE" or a name of refusals.def
        row.returns                     # "CUresult"
        row.parameters                  # "(CUdeviceptr_v2 *dptr, size_t bytesize)"
        row.arguments                   # "(dptr, bytesize)"
        for p in row.params:            # [] where the list is (void)
            p.type, p.name              # "CUdeviceptr_v2 *", "dptr"
            p.kind                      # see below

    api.exported(rows, 12090)           # the rows that a driver of that version exports
    api.load_nvml()                     # likewise; base == symbol but for the version suffix

Kinds of parameters, for programs that make up arguments or record them:

    "integer"   an integer, enumeration or number that serves as a handle: any value will do
    "real"      float or double
    "handle"    an opaque pointer (CUstream, CUcontext, ...): never followed by a caller
    "string"    const char *
    "callback"  a pointer to a function
    "struct"    a struct or union by value
    "pointer"   any other pointer: must lead to memory, api.PLACE_BYTES of it always suffice

A line that is not of the table's form is an error with file, line and reason (ApiError).
"""

import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = ("PASS", "LAUNCH", "ALLOC", "FREE", "TOUCH", "QUERY", "CONTEXT", "CAPTURE", "RESOLVE",
           "REFUSE")
STREAMS = ("PLAIN", "PTDS", "PTSZ")
PLACE_BYTES = 4096

ROW = re.compile(r"^(?P<macro>[A-Z_]+)\((?P<base>\w+), *(?P<version>\d+), *(?P<stream>\w+), *"
                 r"(?P<symbol>\w+), *(?P<klass>\w+), *(?P<reason>\w+), *(?P<returns>[\w ]+?), *"
                 r"(?P<parameters>\(.*\)), *(?P<arguments>\([\w, ]*\))\)$")


class ApiError(Exception):
    pass


class Param:
    def __init__(self, text, kinds):
        match = re.match(r"^(.*?[ *])(\w+)$", text)
        if not match:
            raise ValueError(f"parameter without a name: {text!r}")
        self.type = match.group(1).rstrip()
        self.name = match.group(2)
        self.kind = kind_of(self.type, kinds)

    def __repr__(self):
        return f"{self.type} {self.name} ({self.kind})"


class Row:
    def __init__(self, index, fields, kinds):
        self.index = index
        self.__dict__.update(fields)
        self.version = int(fields["version"])
        inner = self.parameters[1:-1].strip()
        self.params = [] if inner == "void" else [Param(p.strip(), kinds) for p in inner.split(",")]
        names = [n.strip() for n in self.arguments[1:-1].split(",") if n.strip()]
        if names != [p.name for p in self.params]:
            raise ValueError("arguments are not the parameters' names")

    def __repr__(self):
        return f"{self.symbol} ({self.klass}, since {self.version})"


def kind_of(type_, kinds):
    if type_ == "const char *":
        return "string"
    if type_.endswith("*"):
        return "pointer"
    name = re.sub(r"\b(const|struct|union|enum)\b", "", type_).strip()
    return kinds.get(name, "integer" if re.match(r"^(unsigned |signed |long |short )*(int|long|char|short|"
                     r"unsigned|size_t|u?int\d+_t)$", name) else None) or unknown(name)


def unknown(name):
    raise ValueError(f"type that no header of cuda/ declares: {name!r}")


def read_kinds(prefix):
    """name of a type -> kind, from the typedefs of cuda/PREFIX*.h."""
    kinds = {"float": "real", "double": "real"}
    plain = []
    for name in sorted(os.listdir(HERE)):
        if not (name.startswith(prefix) and name.endswith(".h")):
            continue
        with open(os.path.join(HERE, name)) as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for match in re.finditer(r"typedef\s+struct\s+\w+\s*\*\s*(\w+);", text):
            kinds[match.group(1)] = "handle"
        for match in re.finditer(r"^typedef\s+void\s*\*\s*(\w+);", text, re.M):
            kinds[match.group(1)] = "handle"
        for match in re.finditer(r"typedef\s+[^;{]*?\(\s*\*\s*(\w+)\)\s*\(", text):
            kinds[match.group(1)] = "callback"
        for match in re.finditer(r"^typedef\s+(struct|union|enum)\b[^;{]*\{.*?^\}\s*(\w+);", text, re.M | re.S):
            kinds[match.group(2)] = "integer" if match.group(1) == "enum" else "struct"
        for match in re.finditer(r"^typedef\s+([\w ]+?)\s+(\w+);", text, re.M):
            plain.append((match.group(2), match.group(1)))
    for _ in range(4):  # aliases of aliases
        for name, of in plain:
            if name in kinds:
                continue
            if of in kinds:
                kinds[name] = kinds[of]
            elif re.match(r"^(unsigned |signed |long )*(int|long|char|short|unsigned|size_t|u?int\d+_t)$", of):
                kinds[name] = "integer"
    return kinds


def read(path, macro, prefix):
    kinds = read_kinds(prefix)
    rows, comment = [], False
    with open(path) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if comment or line.startswith("/*"):
                comment = "*/" not in line
                continue
            if not line or line.startswith("#"):
                continue
            try:
                match = ROW.match(line)
                if not match or match.group("macro") != macro:
                    raise ValueError(f"not a row {macro}(base, version, stream, symbol, class, "
                                     "reason, returns, (parameters), (arguments))")
                fields = match.groupdict()
                if fields["klass"] not in CLASSES:
                    raise ValueError(f"no such class: {fields['klass']}")
                if fields["stream"] not in STREAMS:
                    raise ValueError(f"no such stream: {fields['stream']}")
                if (fields["klass"] == "REFUSE") != (fields["reason"] != "NONE"):
                    raise ValueError("a reason belongs to class REFUSE and to no other")
                rows.append(Row(len(rows), fields, kinds))
            except ValueError as error:
                raise ApiError(f"{path}:{number}: {error}") from None
    for key, what in ((lambda r: r.symbol, "symbol"),
                      (lambda r: (r.base, r.version, r.stream), "base, version and stream")):
        seen = {}
        for row in rows:
            if key(row) in seen:
                raise ApiError(f"{path}: two rows with one {what}: {key(row)}")
            seen[key(row)] = row
    return rows


def load(path=os.path.join(HERE, "api.def")):
    return read(path, "CUDA_FUNCTION", "types")


def exported(rows, driver_version):
    return [row for row in rows if row.version <= driver_version]
