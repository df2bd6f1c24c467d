#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PTX of ours, and the interpreter's reading of PTX, beside NVIDIA's own compiler: test_ptxas.py BUILD. docs/ptx.md is the list of
what differs. The usual run takes each text for one target and a sample of those that the interpreter's tests make; a long one
(METE_TEST_SCALE above 1) takes all."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "tests/system"), str(ROOT / "tests/ptx")]
import compilers  # noqa: E402
import texts  # noqa: E402
from runner import Skipped, run  # noqa: E402

BUILD = Path(sys.argv[1]).resolve()
LONG = int(os.environ.get("METE_TEST_SCALE", "1")) > 1
SAMPLE = 1 if LONG else 40  # of the generated texts, one in so many
BATCH = 150
# Which targets each compiler is asked for, beside a text's own; the first is what the oldest device of its drivers has.
TARGETS = {"12": (50, 60, 70, 75, 80, 86, 89, 90, 100, 120), "13": (75, 80, 86, 89, 90, 100, 120)}
# Texts that are to be refused, or are linked with others: a part of each, and why.
NOT_WHOLE = {
    "frobnicate.u32": "test_modules: is refused",
    "\nadd;\n": "tests/gpu: is refused",
    "call.uni missing": "tests/gpu: is refused",
    ".version 6.5\n.target sm_90": "test_modules: is refused, for a newer device",
    ".func (.param .u32 r) seven": "test_modules: is linked with another text, and lies in pieces in the program",
}
HEAD = """.version 8.6
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0)
{{
.reg .u64 %l<9>;
.reg .b32 %w<9>;
.reg .f32 %f<9>;
.reg .b16 %h<9>;
.reg .pred %p<9>;
.shared .align 128 .b8 s[1024];
.shared .align 8 .b64 bar;
ld.param.u64 %l0, [p0];
mov.u64 %l1, s;
"""


def ours():
    """Whole texts of what is built and of scripts. The interpreter's tests hold parts of texts; they are asked for whole ones below."""
    found = texts.in_programs(str(BUILD)) | texts.in_scripts(str(ROOT))
    whole = {text: path for text, path in found.items() if not re.search(r"/test_ptx_\w+$|/tests/gpu/ptx_\w+$|/take$", path) and
             text.rstrip().endswith("}") and not re.search(r"%%|%zu|%s\b|sm_%", text)}
    for place in "examples/kernels/network.ptx", "/guest/", "/bench/", "/tests/gpu/claims", "/tests/system/sim/":
        assert any(place in path for path in whole.values()), f"no text of {place}"
    return {text: path for text, path in whole.items() if not any(part in text for part in NOT_WHOLE)}


def targets_of(version, text):
    own = next(target for target in TARGETS[version] if target >= min(texts.target_of(text), TARGETS[version][-1]))
    return [target for target in TARGETS[version] if target >= own] if LONG else [own]


def takes_all_of_ours(version):
    ptxas = compilers.ptxas(version)
    for text, path in ours().items():
        for target in targets_of(version, text):
            said = texts.compiled(ptxas, text, target)
            assert not said, f"{path}, for sm_{target}: {said}\n{text}"


def test_ptxas_12_takes_every_text_of_ours():
    takes_all_of_ours("12")


def test_ptxas_13_takes_every_text_of_ours():
    takes_all_of_ours("13")


def test_the_compilers_ignore_the_annotations_of_costs():
    annotated = {text: path for text, path in ours().items() if '.pragma "mete-' in text}
    assert annotated
    for version in TARGETS:
        ptxas = compilers.ptxas(version)
        for text, path in annotated.items():
            bare = re.sub(r'[ \t]*\.pragma "mete-[^"]*";\n?', lambda found: "\n" if found[0].endswith("\n") else "", text)
            with tempfile.TemporaryDirectory() as place:
                for name, content in ("with", text), ("without", bare):
                    said = texts.compiled(ptxas, content, targets_of(version, text)[0], keep=f"{place}/{name}")
                    assert not said, (path, said)
                assert (open(place + "/with", "rb").read() == open(place + "/without", "rb").read()), f"{path}: ptxas {version} makes other code of it"


def cells(heading):
    """The rows of a table of docs/ptx.md. A bar within a cell is written \\|."""
    text = (ROOT / "docs/ptx.md").read_text()
    part = text[text.index(f"\n## {heading}\n") + 1:]
    part = part[:part.find("\n## ", 1)] if "\n## " in part[1:] else part
    lines = [line for line in part.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]


def test_instructions_that_only_the_compiler_takes_are_refused_by_name():
    ptxas = compilers.ptxas("13")
    with tempfile.TemporaryDirectory() as place:
        for instructions, why in cells("What only NVIDIA's compiler takes"):
            assert why
            for instruction in re.findall(r"`([^`]+)`", instructions):
                target = "sm_90a" if instruction.startswith(("wgmma", "setmaxnreg")) else "sm_90"
                text = HEAD.format(target=target) + instruction + "\nret;\n}\n"
                said = texts.compiled(ptxas, text, target[3:])
                assert not said, f"ptxas refuses it, too: {instruction}: {said}"
                with open(place + "/text.ptx", "w") as file:
                    file.write(text)
                said = subprocess.run([BUILD / "tests/ptx/take", "90", place + "/text.ptx"], text=True, check=True, capture_output=True).stdout
                name = instruction.split()[0].rstrip(";")
                assert said != "taken\n" and (name in said or "%pm0" in said), f"{instruction}: {said}"


PATTERNS = ("rows", "memory", "cvt", "atomics")  # whose texts are made of patterns, thousands of them


def generated(place):
    """The texts that the interpreter's tests load: name of the test -> texts that it takes."""
    made = {}
    for name in PATTERNS + ("mma", "warp", "link"):
        folder = Path(place) / name
        folder.mkdir()
        subprocess.run([BUILD / f"tests/unit/test_ptx_{name}"], env=dict(os.environ, METE_PTX_TEXTS=str(folder)), check=True, capture_output=True)
        numbered = sorted(folder.glob("taken-*.ptx"), key=lambda path: int(path.stem.split("-")[1]))
        made[name] = [path.read_text() for path in numbered]
    return made


def is_simple(text):
    """Can be put together with others: texts.merged()."""
    return text.startswith(".version 8.0\n.target sm_90\n") and text.count(".entry ") == 1 and ".entry k(" in text and \
        ".func" not in text and not re.search(r"^\.(shared|visible \.global|extern|weak)", text, re.M)


def refused_of(ptxas, all_texts):
    simple = [text for text in all_texts if is_simple(text)]
    refused = {}
    for at in range(0, len(simple), BATCH):
        refused |= texts.complaints(ptxas, simple[at:at + BATCH], 90)
    for text in all_texts:
        if not is_simple(text) and (said := texts.compiled(ptxas, text, 90)):
            refused[text] = said
    return refused


def test_instructions_that_only_the_interpreter_takes_are_listed():
    listed = {re.fullmatch(r"`([^`]+)`", words)[1].replace("\\|", "|"): 0 for words, why in cells("What only the interpreter takes") if why}
    with tempfile.TemporaryDirectory() as place:
        made = generated(place)
    assert len(made["rows"]) > 1000 and sum(len(made[name]) for name in PATTERNS) > 6000, {name: len(made[name]) for name in made}
    for version in TARGETS if LONG else ("13",):
        ptxas = compilers.ptxas(version)
        for name, all_texts in made.items():
            # Whole programs of ours are taken; what is made of patterns is sampled.
            chosen = all_texts[::SAMPLE] if name in PATTERNS else all_texts if LONG else all_texts[::4]
            for text, said in refused_of(ptxas, chosen).items():
                words = [pattern for pattern in listed if re.search(pattern, said)]
                assert words, f"test_ptx_{name}: ptxas {version} says: {said}\n{text}"
                assert name not in ("warp", "link", "mma"), f"test_ptx_{name}: ptxas {version} says: {said}\n{text}"
                listed[words[0]] += 1
    if LONG:
        assert all(listed.values()), f"no text is refused with these words any more: {[words for words, n in listed.items() if not n]}"


def shown(heading):
    """The commands and files of a section of docs/simulator.md: its shell blocks."""
    text = (ROOT / "docs/simulator.md").read_text()
    part = text[text.index(heading):]
    return re.findall(r"```(?:sh)?\n(.*?)```", part, re.S)


def test_a_program_of_cuda_cpp_runs_on_the_simulated_driver():
    if not LONG and not os.path.isdir(compilers.kept(compilers.NVCC)):
        raise Skipped("NVIDIA's compiler for CUDA C++ is 100 MB and not here yet; METE_TEST_SCALE=2 fetches it")
    nvcc, _ = compilers.nvcc()
    kernel, compile_it = re.fullmatch(r"cat > double.cu <<'END'\n(.*)END\n(nvcc .*)", shown("### In CUDA C++")[0], re.S).groups()
    program = next(block for block in shown("## A CUDA program of your own") if "double.c <<" in block)
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/double.cu", "w") as file:
            file.write(kernel)
        subprocess.run(compile_it.replace("nvcc", nvcc, 1), shell=True, cwd=place, check=True, capture_output=True, timeout=600)
        said = texts.compiled(compilers.ptxas("13"), open(place + "/double.ptx").read(), 75)
        assert not said, said
        program = program.replace("-I. ", f"-I{ROOT} ").replace("build/plain/", f"{BUILD}/")
        environment = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "sim/13.0"), METE_SIM_DRIVER="13.0", METE_SIM_CAPABILITY="7.5",
                           METE_SIM_DIR=place + "/sim")
        os.mkdir(place + "/sim")
        done = subprocess.run(program + "./double\n", shell=True, cwd=place, env=environment, text=True, capture_output=True, timeout=600)
        assert done.returncode == 0 and "2 * 499 = 998" in done.stdout, done


if __name__ == "__main__":
    run(globals())
