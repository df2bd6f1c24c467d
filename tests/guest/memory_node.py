# SPDX-License-Identifier: Apache-2.0
"""For tests of what guests are charged: a machine that runs memory_load, and clients of both libraries in Python."""
import json

from sim_node import *
from sim_node import Node as SimNode


class Node(SimNode):
    def start(self, *arguments, **more):
        return subprocess.Popen([LOAD, DRIVER, *map(str, arguments)], env=self.guest_environment(), text=True,
                                stderr=subprocess.PIPE, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **more)

    def run(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate()
        print(out, end="")
        assert process.returncode == 0, (process.returncode, err)
        assert err.count("out of memory") <= 1, err
        return out, err

    def nothing_left(self):
        until(lambda: self.row().guests == 0, lambda: self.row())
        row = self.row()
        assert (row.allocated, row.credit, row.residual) == (0, 0, 0), row


# A client of both libraries: allocates, prints what it sees when told to, forks if asked.
CLIENT = r'''
import ctypes as c, json, os, sys
def ok(r):
    assert r == 0, r
def cuda():
    lib = c.CDLL("libcuda.so.1")
    ok(lib.cuInit(0))
    context, address = c.c_void_p(), c.c_uint64()
    ok(lib.cuCtxCreate_v2(c.byref(context), 0, 0))
    ok(lib.cuMemAlloc_v2(c.byref(address), c.c_size_t(int(sys.argv[1]))))
    return lib
child = 0
if "fork" in sys.argv:
    c.CDLL("libcuda.so.1")
    child = os.fork()
lib = cuda()
if child:
    assert os.waitpid(child, 0)[1] == 0
if "fork-later" in sys.argv:
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
if child == 0 and "fork" in sys.argv:
    os._exit(0)
nvml = c.CDLL("libnvidia-ml.so.1")
ok(nvml.nvmlInit_v2())
device = c.c_void_p()
ok(nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(device)))
print("ready", flush=True)
for line in sys.stdin:
    memory, rates, count = (c.c_uint64 * 3)(), (c.c_uint * 2)(), c.c_uint(0)
    memory2 = (c.c_uint64 * 5)(40 | 2 << 24)
    ok(nvml.nvmlDeviceGetMemoryInfo(device, memory))
    ok(nvml.nvmlDeviceGetMemoryInfo_v2(device, memory2))
    short = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, c.byref(count), None)
    rows, old = (c.c_uint64 * 300)(), (c.c_uint64 * 200)()
    count = c.c_uint(100)
    ok(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, c.byref(count), rows))
    ok(nvml.nvmlDeviceGetComputeRunningProcesses(device, c.byref(count), old))
    graphics = c.c_uint(100)
    ok(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device, c.byref(graphics), rows))
    ok(nvml.nvmlDeviceGetUtilizationRates(device, rates))
    kept, states = c.c_uint(1), (c.c_uint * 33)()
    samples = [nvml.nvmlDeviceGetProcessUtilization(device, (c.c_uint64 * 4)(), c.byref(kept), c.c_uint64(0)), kept.value]
    states = nvml.nvmlDeviceGetDynamicPstatesInfo(device, states)
    name = c.create_string_buffer(256)
    names = [nvml.nvmlSystemGetProcessName(pid, name, 256) for pid in (os.getpid(), int(line))]
    free, total = c.c_size_t(), c.c_size_t()
    ok(lib.cuMemGetInfo_v2(c.byref(free), c.byref(total)))
    print(json.dumps(dict(memory=list(memory), memory2=list(memory2)[1:], short=short, graphics=graphics.value, samples=samples, states=states,
                          pids=[old[2 * i] & 0xffffffff for i in range(count.value)],
                          used=[old[2 * i + 1] for i in range(count.value)], names=names,
                          cuda=[total.value, free.value])), flush=True)
'''


class Client:
    def __init__(self, node, socket, *arguments, program=CLIENT, **settings):
        environment = dict(node.environment, METE_SOCKET=socket, METE_DRIVER=os.path.dirname(DRIVER),
                           LD_LIBRARY_PATH=LINKS) | settings
        self.process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], env=environment,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"

    def sees(self, pid=1):
        self.process.stdin.write(f"{pid}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
