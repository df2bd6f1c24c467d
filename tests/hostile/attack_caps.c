/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with a cap whose work is long: in many streams, contexts and processes, behind host
 * functions, and in processes that stop or end. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { MANY_CONTEXTS = 18, CHILDREN = 5, CALL_NS = 1000000000 };

static CUstream stream(void)
{
	CUstream made = NULL;

	CALL(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING);
	return made;
}

/* Calls of a second, each as soon as the one before has ended. */
static void call_on(void)
{
	CUstream own = stream();
	uint64_t t = 0;

	while (until(&t, 1500)) {
		attack_spend(own, CALL_NS);
		CALL(cuStreamSynchronize)(own);
	}
}

void attack_turns_long_threads(void)
{
	if (attack_load_spend())
		in_threads(8, call_on);
	take_everything();
}

void attack_turns_long_children(void)
{
	for (int i = 0; i < CHILDREN; i++)
		if (fork() == 0) {
			start();
			if (attack_load_spend())
				call_on();
			wait_for_the_end();
			_exit(0);
		}
	start();
	if (attack_load_spend())
		call_on();
	take_everything();
}

static void wait_for_launch(void *launched)
{
	while (!*(volatile uint32_t *)launched)
		usleep(500);
}

/* The kernel in front of each launch computes, and behind it the stream waits in a host function
 * until that launch has come. */
static void lean(void)
{
	CUstream own = stream();
	uint32_t launched[2] = {0, 0};
	uint64_t t = 0;

	for (unsigned turn = 0; until(&t, 1500); turn++) {
		*(volatile uint32_t *)&launched[turn % 2] = 0;
		CALL(cuLaunchHostFunc)(own, wait_for_launch, &launched[turn % 2]);
		attack_spend(own, CALL_NS / 4);
		*(volatile uint32_t *)&launched[(turn + 1) % 2] = 1;
		usleep(1000);
	}
	*(volatile uint32_t *)&launched[0] = *(volatile uint32_t *)&launched[1] = 1;
	CALL(cuStreamSynchronize)(own);
}

void attack_turns_leaning(void)
{
	if (attack_load_spend())
		in_threads(4, lean);
	take_everything();
}

/* Half a second in each; the guest keeps account of what is under way in 16. */
void attack_turns_many_contexts(void)
{
	for (int i = 0; i < MANY_CONTEXTS; i++) {
		CUcontext context;

		if (g.cuCtxCreate_v2(&context, 0, g.device) != CUDA_SUCCESS)
			break;
		if (!attack_load_spend())
			break;
		for (int n = 0; n < 10; n++)
			attack_spend(NULL, CALL_NS / 20);
	}
	for (uint64_t t = 0; until(&t, 1200);)
		for (int n = 0; n < 40; n++)
			attack_spend(NULL, CALL_NS / 20);
	take_everything();
}

/* It launches as much as it may, and is stopped until its sibling wakes it. */
static void launch_and_stop(void)
{
	CUstream own = stream();

	for (;;) {
		for (int n = 0; n < 10; n++)
			attack_spend(own, CALL_NS / 20);
		raise(SIGSTOP);
	}
}

void attack_turns_relayed(void)
{
	pid_t pid[CHILDREN];
	uint64_t t = 0;

	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			start();
			if (attack_load_spend())
				launch_and_stop();
			_exit(0);
		}
	}
	for (int i = 0; until(&t, 1500); i++) {
		usleep(150000);
		kill(pid[i % CHILDREN], SIGCONT);
	}
	for (int i = 0; i < CHILDREN; i++)
		kill(pid[i], SIGKILL);
	start_and_take();
}

/* Idle for as long as it takes to save up, and then a second at once. */
void attack_turns_pulsing(void)
{
	uint64_t t = 0;

	if (!attack_load_spend())
		return;
	while (until(&t, 1500)) {
		for (int n = 0; n < 20; n++)
			attack_spend(NULL, CALL_NS / 20);
		g.cuCtxSynchronize();
		usleep(300000);
	}
	take_everything();
}

static void wait_a_little(void *nothing)
{
	(void)nothing;
	usleep(1000);
}

/* Graphs of which host functions and kernels alternate, in streams of both priorities. */
static void launch_mixed(void)
{
	CUstream own = stream();
	CUgraphExec exec;
	CUgraph graph;
	uint64_t t = 0;

	if (CALL(cuStreamBeginCapture_v2)(own, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 10; i++) {
		CALL(cuLaunchHostFunc)(own, wait_a_little, NULL);
		attack_spend(own, CALL_NS / 20);
	}
	if (CALL(cuStreamEndCapture)(own, &graph) != CUDA_SUCCESS ||
	    g.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS)
		return;
	while (until(&t, 1500))
		g.cuGraphLaunch(exec, own);
}

void attack_turns_mixed_graphs(void)
{
	if (attack_load_spend())
		in_threads(3, launch_mixed);
	take_everything();
}

/* A second of work in each of many processes, which end a moment before it is over. */
static void call_and_die(void)
{
	start();
	if (attack_load_spend())
		attack_spend(NULL, CALL_NS);
	usleep(900000);
	kill(getpid(), SIGKILL);
}

void attack_turns_long_died(void)
{
	uint64_t t = 0;

	while (until(&t, 1500)) {
		for (int i = 0; i < 2; i++)
			if (fork() == 0)
				call_and_die();
		while (wait(NULL) > 0)
			;
	}
	start_and_take();
}

/* For tenants of one process each: see rows.py. */
void attack_turns_once(void)
{
	start();
	if (attack_load_spend())
		attack_spend(NULL, CALL_NS);
	usleep(950000);
	_exit(0);
}
