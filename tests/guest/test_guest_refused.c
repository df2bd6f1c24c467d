/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that a seccomp filter refuses: the program joins without them, or is told which one
 * it lacks. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/guest/guest_fixture.h"

static const struct refused_call {
	const char *name;
	int number;
	bool needed; /* otherwise it joins without it */
} refused_calls[] = {
	{"socket", SYS_socket, true},
	{"connect", SYS_connect, true},
	{"fcntl", SYS_fcntl, true},
	{"fstat", SYS_fstat, true},
	{"sendto", SYS_sendto, true},
	{"recvmsg", SYS_recvmsg, true},
	{"ppoll", SYS_ppoll, true},
	{"mremap", SYS_mremap, true},
	{"recvfrom", SYS_recvfrom, false},
	{"sendmsg", SYS_sendmsg, false},
	{"memfd_create", SYS_memfd_create, false},
	{"process_vm_readv", SYS_process_vm_readv, false},
	{"membarrier", SYS_membarrier, false},
	{"madvise", SYS_madvise, false},
	{"prctl", SYS_prctl, false},
	{"getrandom", SYS_getrandom, false},
	{"sigaltstack", SYS_sigaltstack, false},
	{"tgkill", SYS_tgkill, false},
	{"faccessat", SYS_faccessat, false},
	{"readlink", SYS_readlink, false},
};

static int refused_now, error_now;
static bool needed_now;

/* Of this thread and of those that it makes: the fake daemon's are there already. */
static void refuse(int number, int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {ARRAY_SIZE(filter), filter};

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void joins_without(void)
{
	load_with(FAKE_GOOD);
	refuse(refused_now, error_now);
	check(guest_function(guest, cuInit)(0) ==
	      (needed_now ? CUDA_ERROR_SYSTEM_NOT_READY : CUDA_SUCCESS));
	check(needed_now || launch() == CUDA_SUCCESS);
}

static unsigned count_lines(const char *text)
{
	unsigned lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void expect_refused(const struct refused_call *call, int error)
{
	char said[4096], sentence[128];

	refused_now = call->number;
	error_now = error;
	needed_now = call->needed;
	snprintf(sentence, sizeof(sentence), "mete: the system call %s is refused to this program",
		 call->name);
	if (in_child(joins_without, said, sizeof(said)) != 0 ||
	    (call->needed ? strstr(said, sentence) != said || count_lines(said) != 1 : said[0]))
		test_fail(__FILE__, __LINE__, "without %s (%d): '%s'", call->name, error, said);
}

TEST(a_program_that_lacks_a_system_call_joins_without_it_or_is_told_which)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused_calls); i++) {
		expect_refused(&refused_calls[i], EPERM);
		expect_refused(&refused_calls[i], ENOSYS);
	}
}

/* glibc makes a thread by clone() where clone3() is not known, and not where it is forbidden. */
TEST(a_program_that_may_make_no_thread_is_told_so)
{
	expect_refused(&(const struct refused_call){"clone3", 435, true}, EPERM);
	expect_refused(&(const struct refused_call){"clone3", 435, false}, ENOSYS);
}

/* The agent has its thread by then, and may send. */
static void lacks_it_later(void)
{
	load();
	refuse(SYS_sendto, EPERM);
	/* More than it has been granted: it cannot ask for that. */
	check(guest_function(guest, cuMemAlloc_v2)(&(CUdeviceptr){0}, (size_t)1 << 40) ==
	      CUDA_ERROR_OUT_OF_MEMORY);
	check(launch() == CUDA_SUCCESS);
}

TEST(a_program_that_is_refused_a_call_later_is_told_which)
{
	static const char sentence[] = "mete: the system call sendto is refused to this program";
	char said[4096];

	expect_eq(in_child(lacks_it_later, said, sizeof(said)), 0);
	if (!strstr(said, sentence))
		test_fail(__FILE__, __LINE__, "said: '%s', wanted: '%s'", said, sentence);
}
