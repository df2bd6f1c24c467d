#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that want more than their limit, for test_hostile.py: `hostile.py NAME` under `mete run`.

Each prints what the driver answered, and waits for the end of its standard input.
"""
import ctypes
import os
import sys
import threading

MIB = 1 << 20
os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # it looks at all devices
cuda = ctypes.CDLL("libcuda.so.1")
SUCCESS, OUT_OF_MEMORY = 0, 2


def pointer():
    return ctypes.c_void_p()


def begin():
    context = pointer()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0


def heap():
    """A kernel's malloc() and printf() are served from memory that the driver takes by itself."""
    malloc, printf = 2, 1
    sizes = [(malloc, 3 << 30), (printf, 600 * MIB), (malloc, 128 * MIB), (malloc, 1 * MIB)]
    return [cuda.cuCtxSetLimit(limit, ctypes.c_size_t(size)) for limit, size in sizes]


def pools():
    """The default pool of a device that is not ours: at once, and by a graph."""
    pool, stream, graph, address = pointer(), pointer(), pointer(), ctypes.c_uint64()
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 1) == 0
    take = (ctypes.byref(address), ctypes.c_size_t(64 * MIB), pool)
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    answers = [cuda.cuMemAllocFromPoolAsync(*take, stream)]
    assert cuda.cuStreamBeginCapture_v2(stream, 1) == 0
    answers.append(cuda.cuMemAllocFromPoolAsync(*take, stream))
    assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
    answers.append(cuda.cuMemAllocFromPoolAsync(*take[:2], pool, stream))
    return answers


def image(megabytes):
    """PTX with so much static data."""
    return (".version 7.0\n.target sm_70\n.address_size 64\n"
            f".visible .global .align 8 .b8 big[{megabytes * MIB}];\n.visible .entry k() {{ ret; }}\n").encode() + b"\0"


def modules():
    """Static data beyond the limit, by each call that loads some; then some that fits."""
    large, small = image(1024), image(300)
    zero, none = ctypes.c_uint(0), None

    def load(text):
        module, library = pointer(), pointer()
        return [cuda.cuModuleLoadData(ctypes.byref(module), text), bool(module),
                cuda.cuModuleLoadDataEx(ctypes.byref(module), text, zero, none, none), bool(module),
                cuda.cuModuleLoadFatBinary(ctypes.byref(module), text), bool(module),
                cuda.cuLibraryLoadData(ctypes.byref(library), text, none, none, zero, none, none, zero), bool(library)]

    return [load(large), load(small)]


def unloading():
    """What a module gave back is there for the next allocation, and a context's for the next one."""
    module, context, address = pointer(), pointer(), ctypes.c_uint64()
    answers = set()
    for _ in range(20):
        assert cuda.cuModuleLoadData(ctypes.byref(module), image(300)) == 0
        assert cuda.cuModuleUnload(module) == 0
        answers.add(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(300 * MIB)))
        cuda.cuMemFree_v2(address)
    for _ in range(20):
        assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
        assert cuda.cuCtxDestroy_v2(context) == 0
        answers.add(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
        answers.add(cuda.cuCtxDestroy_v2(context))
    return sorted(answers)


def churn():
    """Loads a module of 1 GiB while other threads allocate and free without end."""
    context, module, over = pointer(), pointer(), threading.Event()
    assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0

    def restless():
        address = ctypes.c_uint64()
        cuda.cuCtxSetCurrent(context)
        while not over.is_set():
            if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 * MIB)) == 0:
                cuda.cuMemFree_v2(address)

    threads = [threading.Thread(target=restless) for _ in range(4)]
    for thread in threads:
        thread.start()
    print(cuda.cuModuleLoadData(ctypes.byref(module), image(1024)), flush=True)
    sys.stdin.readline()
    over.set()
    for thread in threads:
        thread.join()


class Pool(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("device", ctypes.c_int),
                ("rest", ctypes.c_uint8 * 72)]


class AllocNode(ctypes.Structure):
    _fields_ = [("pool", Pool), ("access", ctypes.c_void_p), ("accesses", ctypes.c_size_t),
                ("bytes", ctypes.c_size_t), ("address", ctypes.c_uint64)]


def graph_of(mib):
    graph, node, params = pointer(), pointer(), AllocNode(Pool(1, 0, 1, 0), None, 0, mib * MIB, 0)
    assert cuda.cuGraphCreate(ctypes.byref(graph), 0) == 0
    assert cuda.cuGraphAddMemAllocNode(ctypes.byref(node), graph, None, ctypes.c_size_t(0), ctypes.byref(params)) == 0
    return graph


def instantiate(graph):
    executable = pointer()
    return cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0)), executable


def graphs():
    """More executable graphs with memory nodes than the guest follows, and then a large one."""
    small = graph_of(1)
    results = {instantiate(small)[0] for _ in range(4200)}
    result, executable = instantiate(graph_of(600))
    if result == SUCCESS:
        result = cuda.cuGraphLaunch(executable, None)
    cuda.cuCtxSynchronize()
    return [sorted(results), result]


begin()
print(globals()[sys.argv[1]](), flush=True)
sys.stdin.read()
