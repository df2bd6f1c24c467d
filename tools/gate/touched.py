# SPDX-License-Identifier: Apache-2.0
"""Which tests a change of a file needs, by its folder: for the minutes in between. What a merge needs is all of them.

A test program's own file, and a fuzz target's corpus, need that program. tests/cli/test_make.py holds this table to the tests that
there are.
"""
import fnmatch
import json
import os
import subprocess

# The longest prefix of a file's name counts. Patterns are names of tests, or `suite:NAME`.
TABLE = {
    "base/": "suite:unit suite:shape suite:fuzz meted kube_*",
    "core/": "suite:unit suite:shape replay_openb",
    "core/ledger/": "ledger* residual* pure arrows headers meted meted_crowd meted_residual meted_book guest_memory guest_meted",
    "core/ledger/residual": "residual* ledger* pure arrows headers meted_residual guest_memory",
    "core/turns/": "turns* replay_time pure arrows headers meted_turns guest_turns* demo_time",
    "core/service": "service turns* pure arrows headers",
    "core/residency/": "residency* replay_memory pure arrows headers meted_move* meted_stuck swap*",
    "core/placement/": "placement* departures replay* fuzz_placement pure arrows headers pick pick_choose",
    "core/share/": "share annotations config* policy pure arrows headers cli_run meted_policy",
    "wire/": "wire fuzz_wire journal pure arrows headers meted meted_hostile guest_link guest_join",
    "cuda/": "suite:driver tables resolve record arrows headers guest-* guest_calls guest_resolve sim_exports",
    "guest/": "guest* blocks movable ranges pointers text arrows headers hostile_attacks cli_hostile",
    "guest/movable/": "movable blocks ranges guest_movable* guest_lend guest-* arrows headers swap* oversize",
    "guest/memory/oversize": "oversize guest_memory guest-* arrows headers",
    "hook/": "hook fuzz_hook arrows headers containers handout hostile_images",
    "plugin/": "plugin* config* annotations* inject numa mig_files cdi_choice features node_features vgpu fuzz_* arrows headers as_nvidia nvidia_* handout containers",
    "plugin/mps/": "nvidia_mps* mps_turnover mps_folder arrows headers",
    "sim/mps/": "nvidia_mps* sim_exports",
    "core/mps": "mps_always nvidia_mps*",
    "plugin/config": "config* fuzz_config arrows headers plugin plugin_file as_nvidia nvidia_*",
    "plugin/config/annotations": "annotations* fuzz_annotations arrows headers plugin_pods",
    "kube/": "grpc* api_* kube_api* fuzz_grpc_* fuzz_api_watch fuzz_kubeconfig arrows headers plugin",
    "http/": "http_* kube_http page page_tls arrows headers plugin plugin_told",
    "node/": "meted* journal policy fuzz_policy fuzz_journal past store* process nvml_parts arrows headers guest_meted pick plugin swap",
    "node/move/store": "store* arrows headers meted_move* meted_stuck swap*",
    "node/move/": "arrows headers meted_move* meted_stuck swap* oversize guest_movable*",
    "node/time/": "arrows headers meted_turns guest_turns* demo_time swap",
    "replay/": "replay* departures turns* fuzz_trace fuzz_published fuzz_pod_samples arrows headers",
    "cli/": "cli_* pick pick_choose returning arrows headers meted_nested meted_daemons",
    "view/": "cli_ps* cli_top cli_why top_view page* plugin_metrics monitoring_* arrows headers",
    "page/": "page* plugin_page http_listen arrows headers",
    "mig/": "mig_* fuzz_mig_spec cli_mig arrows headers",
    "sim/": "sim_* guest_meted_sim arrows headers guest_memory guest_management",
    "sim/ptx/": "ptx_* fuzz_ptx sim_launch sim_modules sim_faults arrows headers",
    "examples/": "demo* check_gpu",
    "deploy/": "on_node image cli_texts packages_chart",
    "deploy/Containerfile": "image packages_image packages_debian",
    "deploy/monitoring/": "monitoring_* packages_chart",
    "deploy/kubectl/": "cli_kubectl packages_krew",
    "debian/": "packages_debian*",
    "docs/": "cli_texts cli_first_hour arrows config",
    "README.md": "cli_texts cli_first_hour",
    "tools/": "cli_make cli_install",
    "tools/bare-container": "packages_bare",
    "tools/krew": "packages_krew",
    "tools/image": "packages_image image",
    "tools/oci.py": "packages_image kubernetes_pods",
    "tools/tidy": "cli_gate",
    "tools/gate/": "cli_gate cli_make",
    "tools/apart": "meted_daemons",
    "tools/check": "suite:shape",
    "bench/": "cli_make arrows",
    "Makefile": "cli_make",
    ".ci/": "cli_make",
    "tests/unit/": "suite:unit",
    "tests/system/": "meted* pick",
    "tests/system/http_server": "kube_api* plugin*",
    "tests/system/sim/": "sim_*",
    "tests/guest/": "guest_*",
    "tests/cli/": "cli_*",
    "tests/plugin/": "plugin* as_nvidia nvidia_* handout containers hostile_images",
    "tests/kube/": "kube_*",
    "tests/hostile/": "hostile_attacks",
    "tests/monitoring/": "monitoring_*",
    "tests/packages/": "packages_*",
    "tests/driver/": "suite:driver",
    "tests/gpu/": "check_gpu*",
    "tests/ptx/": "ptx*",
    "tests/drivers/": "guest_*",
    "tests/fuzz/": "suite:fuzz fuzz-corpus",
    "tests/shape/": "suite:shape",
    "tests/kubernetes/": "kubernetes_pods",
    "tests/cluster/": "kubernetes_pods",
    "tests/v2/": "plugin_strangers plugin_unannounced",
    "tests/": "suite:unit",
}


def tests_there_are(build="build/plain"):
    """{name: its suites}."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", build], text=True, capture_output=True, check=True).stdout)
    return {row["name"]: {name.split(":")[-1] for name in row["suite"]} for row in listed}


def matching(pattern, tests):
    if pattern.startswith("suite:"):
        return {name for name, suites in tests.items() if pattern[6:] in suites}
    return {name for name in tests if fnmatch.fnmatch(name, pattern)}


def own(file, tests):
    """The program whose own file this is: {} where it is none's."""
    base = os.path.basename(file)
    stem = os.path.splitext(base)[0]
    if file.startswith("tests/fuzz/corpus/"):
        return {f"fuzz_{file.split('/')[3]}"} & tests.keys()
    if file.startswith("tests/fuzz/"):
        return {stem} & tests.keys()
    if not file.startswith("tests/") or not stem.startswith("test_"):
        return {stem} & tests.keys() if file.startswith("tests/") else set()
    name, folder = stem[5:], file.split("/")[1]
    return {name, f"{folder}_{name}", f"sim_{name}" if "/sim/" in file else name} & tests.keys()


def needed(file, tests):
    """The tests of one file; KeyError where the table knows nothing of its folder."""
    found = own(file, tests)
    if found:
        return found
    prefixes = [prefix for prefix in TABLE if file.startswith(prefix)]
    if not prefixes:
        raise KeyError(file)
    patterns = TABLE[max(prefixes, key=len)].split()
    return set().union(*(matching(pattern, tests) for pattern in patterns))


def tests_of(files, build="build/plain"):
    """The tests that a change of these needs. Soaks are left out, unless a file is one's own."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["tools/build", "plain"], check=True)
    tests = tests_there_are(build)
    found = set()
    for file in files:
        file = os.path.relpath(os.path.abspath(file))
        try:
            found |= {name for name in needed(file, tests) if "soak" not in tests[name] or name in own(file, tests)}
        except KeyError:
            raise SystemExit(f"tools/test: no test is known to depend on '{file}': give files of this tree, as `git diff --name-only` lists them") from None
    return found
