#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that want more than their limit, for test_hostile.py: `hostile.py NAME` under `mete run`.

Each prints what the driver answered, and waits for the end of its standard input.
"""
import ctypes
import os
import socket
import subprocess
import sys
import threading

MIB = 1 << 20
os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # it asks for all devices
cuda = ctypes.CDLL("libcuda.so.1")
SUCCESS, OUT_OF_MEMORY = 0, 2


def pointer():
    return ctypes.c_void_p()


class Pool(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("device", ctypes.c_int),
                ("rest", ctypes.c_uint8 * 72)]


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


def held():
    """The device's memory in use, by the driver's own word."""
    path, free, total = os.environ["METE_DRIVER"], ctypes.c_size_t(), ctypes.c_size_t()
    driver = ctypes.CDLL(os.path.join(path, "libcuda.so.1") if os.path.isdir(path) else path)
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return total.value - free.value


def blocked_stream():
    """A stream that does nothing before the event is set."""
    stream, event = pointer(), threading.Event()
    waits = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: event.wait() and None)
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert cuda.cuLaunchHostFunc(stream, waits, None) == 0
    stream.kept = waits
    return stream, event


def pool_that_keeps():
    pool, keep, props = pointer(), ctypes.c_uint64(-1), Pool(1, 0, 1, 0)
    answer = cuda.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(props))
    if answer == SUCCESS:
        assert cuda.cuMemPoolSetAttribute(pool, 4, ctypes.byref(keep)) == 0
    return answer, pool


def destroyed_pools():
    """Pools that are destroyed while what they gave is not free yet; then all of it is."""
    address, taken = ctypes.c_uint64(), 0
    stream, event = blocked_stream()
    for _ in range(20):
        answer, pool = pool_that_keeps()
        assert answer == SUCCESS
        answer = cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), ctypes.c_size_t(64 * MIB), pool, stream)
        if answer == SUCCESS:
            taken += 1
            assert cuda.cuMemFreeAsync(address, stream) == 0
        assert cuda.cuMemPoolDestroy(pool) == 0 and cuda.cuMemPoolDestroy(pool) != 0
    most = held()
    event.set()
    assert cuda.cuStreamSynchronize(stream) == 0
    return [answer, taken, most, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(384 * MIB))]


def many_pools():
    """More pools than are followed, which keep what was freed."""
    address, answers, made = ctypes.c_uint64(), set(), []
    for _ in range(1100):
        answer, pool = pool_that_keeps()
        answers.add(answer)
        made += [pool] if answer == SUCCESS else []
    while made:
        if cuda.cuMemAllocFromPoolAsync(ctypes.byref(address), ctypes.c_size_t(2 * MIB), made.pop(), None) == SUCCESS:
            assert cuda.cuMemFreeAsync(address, None) == 0
    return [sorted(answers), held()]


class Array(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("format", ctypes.c_int), ("channels", ctypes.c_uint)]


def arrays():
    """Arrays that are padding for the most part, while another thread frees memory without end."""
    context, over, array = pointer(), threading.Event(), pointer()
    assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0

    def restless():
        address = ctypes.c_uint64()
        cuda.cuCtxSetCurrent(context)
        while not over.is_set():
            if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 * MIB)) == 0:
                cuda.cuMemFree_v2(address)

    thread, most = threading.Thread(target=restless), 0
    thread.start()
    for _ in range(400):
        answer = cuda.cuArrayCreate_v2(ctypes.byref(array), ctypes.byref(Array(1, 4096, 1, 1)))
        most = max(most, held())
        if answer != SUCCESS:
            break
    over.set()
    thread.join()
    return [answer, most]


def heaps():
    """A heap, and then all that is left beside it."""
    address, malloc, taken = ctypes.c_uint64(), 2, 0
    answer = cuda.cuCtxSetLimit(malloc, ctypes.c_size_t(256 * MIB))
    while cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(32 * MIB)) == SUCCESS:
        taken += 32
    return [answer, taken]


def image(megabytes):
    """PTX with so much static data."""
    return (".version 7.0\n.target sm_70\n.address_size 64\n"
            f".visible .global .align 8 .b8 big[{megabytes * MIB}];\n.visible .entry k() {{ ret; }}\n").encode() + b"\0"


def modules():
    """Static data beyond the limit, by each call that loads some; then some that fits."""
    large, small = image(600), image(300)
    zero, none = ctypes.c_uint(0), None

    def load(text):
        module, library = pointer(), pointer()
        return [cuda.cuModuleLoadData(ctypes.byref(module), text), bool(module),
                cuda.cuModuleLoadDataEx(ctypes.byref(module), text, zero, none, none), bool(module),
                cuda.cuModuleLoadFatBinary(ctypes.byref(module), text), bool(module),
                cuda.cuLibraryLoadData(ctypes.byref(library), text, none, none, zero, none, none, zero), bool(library)]

    return [load(large), load(small)]


def unloading():
    """Memory that a module gave back is there for the next allocation, and a context's for the next one."""
    module, context, address = pointer(), pointer(), ctypes.c_uint64()
    answers = set()
    for _ in range(5):
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


def together():
    """Threads that find no primary context."""
    answers, barrier = [], threading.Barrier(8)

    def retain():
        context = pointer()
        barrier.wait()
        answers.append(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))

    threads = [threading.Thread(target=retain) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


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


class Physical(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("device", ctypes.c_int),
                ("rest", ctypes.c_uint64 * 4)]


def export(mib, keeps=False):
    """Descriptors of memory, 64 MiB each, that nothing else holds any more, or still does."""
    descriptors, handle, physical = [], ctypes.c_uint64(), Physical(1, 1, 1, 0)
    for _ in range(mib // 64):
        descriptor = ctypes.c_int(-1)
        assert cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(64 * MIB), ctypes.byref(physical), ctypes.c_uint64(0)) == 0
        assert cuda.cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, 1, ctypes.c_uint64(0)) == 0
        assert keeps or cuda.cuMemRelease(handle) == 0
        descriptors.append(descriptor.value)
    return descriptors


def bring(descriptors):
    handles = []
    for descriptor in descriptors:
        handle = ctypes.c_uint64()
        assert cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(descriptor), 1) == 0
        handles.append(handle)
    return handles


def fill():
    """Takes what there is, in 16 MiB."""
    address, taken = ctypes.c_uint64(), 0
    while (answer := cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(16 * MIB))) == SUCCESS:
        taken += 16
    return answer, taken


def maker(keeps=False):
    """For adopted(): what it exports goes to standard output, a socket."""
    with socket.socket(fileno=1) as to:
        socket.send_fds(to, [b"x"], export(64, keeps))
        to.recv(1)  # until it is killed, or the other end is closed


def keeper():
    """Likewise, and it is killed while it holds that."""
    maker(keeps=True)


def adopted(*command, kind="maker", limit=512 * MIB):
    """Again and again a process exports 64 MiB and ends, and another one goes on with what it made."""
    rounds, most, handles = 0, 0, []
    while most <= limit:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        other = subprocess.Popen([*command, sys.executable, __file__, kind], stdout=theirs, stderr=subprocess.DEVNULL)
        theirs.close()
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except ConnectionResetError:
            descriptors = []
        if descriptors:  # else there was no room for its context, or for its memory
            handles += bring(descriptors)
            os.close(descriptors[0])
        most = max(most, held())
        ours.close() if command else other.kill()
        other.wait()
        if not descriptors:
            break
        rounds += 1
    answer, taken = fill()
    most = max(most, held())
    for handle in handles:
        assert cuda.cuMemRelease(handle) == 0
    return [rounds, answer, taken, most, held(), fill()[1]]


def adopted_of_the_killed():
    return adopted(kind="keeper")


def adopted_from_within():
    """Likewise of processes that are tenants of their own, within ours, and end with them."""
    return adopted(os.environ["METE_CLI"], "run", "--quiet", "--memory", "400MiB", "--")


def giver():
    """For collector(): exports 64 MiB to its socket, and ends when it has them."""
    descriptors = export(64)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to:
        to.connect(os.environ["METE_COLLECTOR"])
        socket.send_fds(to, [b"x"], descriptors)
        to.recv(1)
    return "gave"


def collector():
    """Takes what tenants of its user that end give it, one after the other, until it hears of the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(os.environ["METE_COLLECTOR"])
        door.listen()
        print("listens", flush=True)
        while sys.stdin.readline().strip() == "take":
            ours, _ = door.accept()
            with ours:
                _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
                bring(descriptors)
                os.close(descriptors[0])
            print(held(), flush=True)
    return "over"


def leaver():
    """For leavers(): memory that may outlive it by its own report, and does not."""
    malloc = 2
    assert cuda.cuCtxSetLimit(malloc, ctypes.c_size_t(128 * MIB)) == SUCCESS
    export(64)


def leavers():
    """How much there is again and again, right after another process has ended that left nothing behind."""
    amounts = []
    for _ in range(8):
        subprocess.run([sys.executable, __file__, "leaver"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        taken = [ctypes.c_uint64()]
        while cuda.cuMemAlloc_v2(ctypes.byref(taken[-1]), ctypes.c_size_t(16 * MIB)) == SUCCESS:
            taken.append(ctypes.c_uint64())
        amounts.append(len(taken) - 1)
        for address in taken[:-1]:
            assert cuda.cuMemFree_v2(address) == SUCCESS
    return amounts


def library_contexts(before=lambda: None):
    """A library of 100 MiB in one context after the other, then what is left beside it."""
    before()
    library, module, context, used = pointer(), pointer(), pointer(), 0
    zero, none, way = ctypes.c_uint(0), None, 0
    address, size, kernel, function = ctypes.c_uint64(), ctypes.c_size_t(), pointer(), pointer()
    assert cuda.cuLibraryLoadData(ctypes.byref(library), image(100), none, none, zero, none, none, zero) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"k") == 0
    ways = [lambda: cuda.cuLibraryGetModule(ctypes.byref(module), library),
            lambda: cuda.cuLibraryGetGlobal(ctypes.byref(address), ctypes.byref(size), library, b"big"),
            lambda: cuda.cuKernelGetFunction(ctypes.byref(function), kernel)]
    for use in ways:
        assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
        assert use() == SUCCESS and use() == SUCCESS
    answer, taken = fill()
    return [answer, taken, held()]


def library_and_credit():
    """The same for a program that has unused credit, from which it could take more than is left."""
    def take_and_free():
        address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(600 * MIB)) == SUCCESS
        assert cuda.cuMemFree_v2(address) == SUCCESS

    return library_contexts(take_and_free)


begin()
print(globals()[sys.argv[1]](), flush=True)
sys.stdin.read()
