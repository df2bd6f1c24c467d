# SPDX-License-Identifier: Apache-2.0
"""Reads cuda/api.def, cuda/nvml.def and cuda/names.def, for programs that generate code from them.

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
    api.load_nvml()                     # rows of nvml.def: index, symbol, klass, reason; returns,
                                        # parameters, arguments and params are None where the
                                        # table knows the name alone
    api.load_names()                    # cuda/names.def: names that the driver exports and no header has

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
PLACE_BYTES = 65536

CODE = r"(?P<returns>[\w ]+?[ *]*), *(?P<parameters>\(.*\)), *(?P<arguments>\([\w, ]*\))"
DRIVER_FORMS = {
    r"CUDA_FUNCTION\((?P<base>\w+), *(?P<version>\d+), *(?P<stream>\w+), *(?P<symbol>\w+), *"
    r"(?P<klass>\w+), *(?P<reason>\w+), *" + CODE + r"\)",
}
NVML_FORMS = {
    r"NVML_FUNCTION\((?P<symbol>\w+), *(?P<klass>\w+), *(?P<reason>\w+), *" + CODE + r"\)",
    r"NVML_NAME\( *(?P<symbol>\w+), *(?P<klass>\w+), *(?P<reason>\w+)\)",
}
INTEGER = re.compile(r"^(unsigned |signed |long )*"
                     r"(int|long|char|short|unsigned|size_t|u?int\d+_t)$")


class ApiError(Exception):
    """A table cannot be used; the text says where and why."""


class Param:
    """One parameter: its type, name and kind."""

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
    """One row of a table; see above."""

    returns = parameters = arguments = params = None

    def __init__(self, index, fields, kinds):
        self.index = index
        self.__dict__.update({name: value for name, value in fields.items() if value is not None})
        if "version" in fields:
            self.version = int(fields["version"])
        if self.klass not in CLASSES:
            raise ValueError(f"no such class: {self.klass}")
        if getattr(self, "stream", "PLAIN") not in STREAMS:
            raise ValueError(f"no such stream: {self.stream}")
        if (self.klass == "REFUSE") != (self.reason != "NONE"):
            raise ValueError("a reason belongs to class REFUSE and to no other")
        if self.parameters is None:
            return
        inner = self.parameters[1:-1].strip()
        self.params = [] if inner == "void" else [Param(p.strip(), kinds) for p in inner.split(",")]
        names = [n.strip() for n in self.arguments[1:-1].split(",") if n.strip()]
        if names != [p.name for p in self.params]:
            raise ValueError("the arguments are not the parameters' names")

    def __repr__(self):
        return f"{self.symbol} ({self.klass})"


def kind_of(type_, kinds):
    """The kind of a parameter of that type."""
    if type_ == "const char *":
        return "string"
    if type_.endswith("*"):
        return "pointer"
    name = re.sub(r"\bconst\b", "", type_).strip()
    if name in kinds:
        return kinds[name]
    if INTEGER.match(name):
        return "integer"
    raise ValueError(f"type that no header of cuda/ declares: {name!r}")


def read_kinds():
    """Name of a type -> kind, from the typedefs of cuda/*types*.h."""
    kinds, aliases = {"float": "real", "double": "real"}, []
    for name in sorted(os.listdir(HERE)):
        if not re.match(r"^(nvml_)?types.*\.h$", name):
            continue
        with open(os.path.join(HERE, name), encoding="ascii") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for match in re.finditer(r"^typedef\s+(?:struct\s+\w+|void)\s*\*\s*(\w+);", text, re.M):
            kinds[match.group(1)] = "handle"
        for match in re.finditer(r"^typedef\s+[^;{]*?\(\s*\*\s*(\w+)\)\s*\(", text, re.M):
            kinds[match.group(1)] = "callback"
        for match in re.finditer(r"^typedef\s+(struct|union|enum)\b[^;{]*\{.*?^\}\s*(\w+);", text,
                                 re.M | re.S):
            kinds[match.group(2)] = "integer" if match.group(1) == "enum" else "struct"
        aliases += re.findall(r"^typedef\s+([\w ]+?)\s+(\w+);", text, re.M)
    while True:
        found = {name: kinds.get(of, "integer" if INTEGER.match(of) else None)
                 for of, name in aliases if name not in kinds}
        found = {name: kind for name, kind in found.items() if kind}
        if not found:
            return kinds
        kinds.update(found)


def read(path, forms, unique):
    """The rows of a table of these forms; unique: fields that no two rows may share."""
    kinds = read_kinds()
    rows, comment = [], False
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if comment or line.startswith("/*"):
                comment = "*/" not in line
                continue
            if not line or line.startswith("#"):
                continue
            match = next((m for m in (re.fullmatch(f, line) for f in forms) if m), None)
            try:
                if not match:
                    raise ValueError("not a row; the form is in the comment at the top")
                rows.append(Row(len(rows), match.groupdict(), kinds))
            except ValueError as error:
                raise ApiError(f"{path}:{number}: {error}") from None
    for fields in unique:
        seen = set()
        for row in rows:
            key = tuple(getattr(row, field) for field in fields)
            if key in seen:
                raise ApiError(f"{path}: two rows with the same {', '.join(fields)}: {key}")
            seen.add(key)
    return rows


def load(path=os.path.join(HERE, "api.def")):
    """The driver's functions."""
    return read(path, DRIVER_FORMS, [("symbol",), ("base", "version", "stream")])


def load_nvml(path=os.path.join(HERE, "nvml.def")):
    """NVML's functions."""
    return read(path, NVML_FORMS, [("symbol",)])


def load_names(path=os.path.join(HERE, "names.def")):
    """What the driver exports and no header declares."""
    with open(path, encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    names = re.findall(r"^CUDA_NAME\((\w+)\)$", text, re.M)
    if len(names) != len(text.split()) or len(set(names)) != len(names):
        raise ApiError(f"{path}: not a list of different CUDA_NAME(symbol), one a line")
    return names


def exported(rows, driver_version):
    """Those of the rows that a driver of that version (12090) exports."""
    return [row for row in rows if row.version <= driver_version]
