/* SPDX-License-Identifier: Apache-2.0 */
/* What programs of models do: loaders that are processes, tokens that a client asks for,
 * checkpoints on the side; and two tenants that send each other chunks on credit. */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/guest/turns_traps.h"

enum { BATCH = 1 << 16, PLACES = 4, BATCHES = 4, TOKENS = 4, CREDITS = 4, CHUNKS = 8 };

/* ---- two processes fill pages, a thread copies them to the device, and asks when they are free --
 */

static struct pages {
	_Atomic(uint32_t) filled[PLACES]; /* by a loader: the number of its batch */
	_Atomic(uint32_t) free[PLACES];	  /* by the thread: that may be filled */
	char batch[PLACES][BATCH];
} * pages;

static struct {
	CUdeviceptr at[PLACES];
	CUevent copied[PLACES];
	atomic_uint ready;
} pinned;

/* Two of them, each with every other place. */
static void noreturn_ fill(unsigned own)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint32_t n = own;; n += 2) {
		while (atomic_load(&pages->free[n % PLACES]) < n)
			traps_rest_us(50);
		memset(pages->batch[n % PLACES], (int)n, BATCH);
		traps_rest_us(300);
		atomic_store(&pages->filled[n % PLACES], n + 1);
	}
}

static void *pin(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (uint32_t n = 0;; n++) {
		unsigned place = n % PLACES;

		while (atomic_load(&pages->filled[place]) != n + 1)
			traps_rest_us(50);
		ok(g.cuMemcpyHtoDAsync_v2(pinned.at[place], pages->batch[place], BATCH,
					  g.device[0].stream[1]));
		ok(g.cuEventRecord(pinned.copied[place], g.device[0].stream[1]));
		while (g.cuEventQuery(pinned.copied[place]) == CUDA_ERROR_NOT_READY)
			traps_rest_us(20);
		pinned.ready = n + 1;
		atomic_store(&pages->free[place], n + PLACES);
	}
	return NULL;
}

static void begin_pinned(void)
{
	pthread_t thread;

	pages = mmap(NULL, sizeof(*pages), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (pages == MAP_FAILED)
		fail("no shared memory");
	for (unsigned i = 0; i < PLACES; i++)
		pages->free[i] = i;
	for (unsigned i = 0; i < 2; i++)
		if (fork() == 0)
			fill(i);
	ok(g.cuMemHostRegister_v2(pages, sizeof(*pages), 0));
	for (int i = 0; i < PLACES; i++) {
		ok(g.cuMemAlloc_v2(&pinned.at[i], BATCH));
		pinned.copied[i] = traps_event();
	}
	traps_thread(pin, &thread);
}

void trap_pinned(void)
{
	if (!pages)
		begin_pinned();
	for (uint32_t n = (g.round - 1) * BATCHES; n < g.round * BATCHES; n++) {
		while (pinned.ready <= n)
			traps_rest_us(20);
		traps_launch(0, 0, g.device[0].spend, 300000);
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- a client asks for tokens: each is a graph, a copy to the host, and an event that is slept on
 */

static int asked, answered;

static void noreturn_ be_client(int in, int out)
{
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1)
		traps_rest_us(500);
	_exit(0);
}

static void start_client(void)
{
	int there[2], back[2];

	if (pipe2(there, 0) != 0 || pipe2(back, 0) != 0)
		fail("no pipe");
	if (fork() == 0)
		be_client(back[0], there[1]);
	asked = there[0];
	answered = back[1];
}

static CUgraphExec capture_token(CUstream stream)
{
	CUgraphExec ready;
	CUgraph graph;

	ok(g.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < 8; i++)
		traps_launch_in(stream, 20000);
	ok(g.cuStreamEndCapture(stream, &graph));
	ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	ok(g.cuGraphDestroy(graph));
	return ready;
}

void trap_tokens(void)
{
	static CUgraphExec token;
	static CUdeviceptr at;
	static CUevent event;
	CUstream stream = g.device[0].stream[0];
	char byte;

	if (!token) {
		start_client();
		ok(g.cuMemAlloc_v2(&at, 4096));
		ok(g.cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
		token = capture_token(stream);
	}
	if (read(asked, &byte, 1) != 1)
		fail("the client has ended");
	for (int i = 0; i < TOKENS; i++) {
		ok(g.cuGraphLaunch(token, stream));
		ok(g.cuMemcpyDtoHAsync_v2((void *)&g.word[8], at, 4, stream));
		ok(g.cuEventRecord(event, stream));
		ok(g.cuEventSynchronize(event));
	}
	if (write(answered, &byte, 1) != 1)
		fail("the client does not listen");
}

/* ---- training goes on while another stream copies what was learnt, and a thread writes it down --
 */

static struct {
	CUdeviceptr at;
	void *host;
	CUevent learnt, copied;
	FILE *file;
} saved;

static void *write_down(void *nothing)
{
	(void)nothing;
	traps_use_device();
	ok(g.cuEventSynchronize(saved.copied));
	rewind(saved.file);
	if (fwrite(saved.host, BATCH, 1, saved.file) != 1 || fflush(saved.file) != 0)
		fail("it is not written down");
	return NULL;
}

static void begin_saves(void)
{
	saved.file = tmpfile();
	ok(g.cuMemAlloc_v2(&saved.at, BATCH));
	ok(g.cuMemHostAlloc(&saved.host, BATCH, 0));
	saved.learnt = traps_event();
	saved.copied = traps_event();
	if (!saved.file)
		fail("no file");
}

void trap_saves(void)
{
	CUstream *stream = g.device[0].stream;
	pthread_t thread;

	if (!saved.host)
		begin_saves();
	traps_launch(0, 0, g.device[0].spend, 300000);
	ok(g.cuEventRecord(saved.learnt, stream[0]));
	ok(g.cuStreamWaitEvent(stream[1], saved.learnt, 0));
	ok(g.cuMemcpyDtoHAsync_v2(saved.host, saved.at, BATCH, stream[1]));
	ok(g.cuEventRecord(saved.copied, stream[1]));
	traps_thread(write_down, &thread);
	for (int i = 0; i < 4; i++)
		traps_launch(0, 0, g.device[0].spend, 300000);
	ok(g.cuStreamWaitEvent(stream[0], saved.copied, 0));
	ok(g.cuStreamSynchronize(stream[0]));
	pthread_join(thread, NULL);
}

/* ---- two tenants send chunks to each other: a thread without the driver carries what kernels have
 * put down, as long as it has credit
 */

static struct {
	_Atomic(uint32_t) *words; /* two of each: what its kernels have put down, and what came */
	CUdeviceptr at;
	unsigned own;
} credit;

static void *carry(void *nothing)
{
	_Atomic(uint32_t) *put = &credit.words[credit.own], *came = &credit.words[2 + credit.own],
			  *there = &credit.words[3 - credit.own];

	(void)nothing;
	for (uint32_t sent = 0;; sent++) {
		while (atomic_load(put) <= sent || sent >= atomic_load(came) + CREDITS)
			sched_yield();
		if (atomic_load(there) <= sent)
			atomic_store(there, sent + 1);
	}
	return NULL;
}

static void launch_at(CUfunction kernel, unsigned word, uint32_t value)
{
	CUdeviceptr at = credit.at + 4 * word;

	ok(g.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0],
			    (void *[]){&at, &value}, NULL));
}

static void send_and_receive(unsigned own)
{
	if (!credit.words) {
		pthread_t thread;
		void *memory;

		credit.at = traps_map_words(&memory);
		credit.words = memory;
		credit.own = own;
		traps_thread(carry, &thread);
	}
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint32_t chunk = (g.round - 1) * CHUNKS + i + 1;

		traps_launch_in(g.device[0].stream[0], 50000);
		launch_at(g.device[0].set, own, chunk);
		launch_at(g.device[0].wait, 2 + own, chunk);
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

void traps_part_credit(void)
{
	if (credit.words)
		atomic_store(&credit.words[3 - credit.own], INT32_MAX);
}

void trap_credit_here(void)
{
	send_and_receive(0);
}

void trap_credit_there(void)
{
	send_and_receive(1);
}
