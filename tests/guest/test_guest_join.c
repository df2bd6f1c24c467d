/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: daemons that misbehave, what cannot be found, whose driver it is. */
#include "tests/guest/guest_fixture.h"

static enum fake_fault fault_now;
static CUresult wanted_now;

static void joins_badly(void)
{
	load_with(fault_now);
	check(guest_function(guest, cuInit)(0) == wanted_now);
	if (wanted_now == CUDA_SUCCESS)
		check(launch() == CUDA_SUCCESS);
	else
		check(launch() == wanted_now);
	check(open_descriptors() < 100);
}

static void expect_join(enum fake_fault fault, CUresult wanted, const char *sentence)
{
	char said[4096];

	fault_now = fault;
	wanted_now = wanted;
	expect_eq(in_child(joins_badly, said, sizeof(said)), 0);
	if (!strstr(said, sentence))
		test_fail(__FILE__, __LINE__, "said: '%s', wanted: '%s'", said, sentence);
}

TEST(a_daemon_that_misbehaves_is_refused_in_a_sentence)
{
	expect_join(FAKE_UNSEALED, CUDA_ERROR_SYSTEM_NOT_READY, "is not sealed");
	expect_join(FAKE_SHORT_PAGE, CUDA_ERROR_SYSTEM_NOT_READY, "or not 4096 bytes long");
	expect_join(FAKE_OTHER_MAJOR, CUDA_ERROR_SYSTEM_NOT_READY,
		    "speaks another protocol version");
	expect_join(FAKE_OTHER_PAGE, CUDA_ERROR_SYSTEM_NOT_READY, "another version");
	expect_join(FAKE_MANY_DEVICES, CUDA_ERROR_SYSTEM_NOT_READY, "another version");
	expect_join(FAKE_REFUSES, CUDA_ERROR_SYSTEM_NOT_READY, "refuses this program: not you");
	expect_join(FAKE_NO_DESCRIPTORS, CUDA_ERROR_SYSTEM_NOT_READY,
		    "speaks another protocol version");
	expect_join(FAKE_REFUSES_AT_ONCE, CUDA_ERROR_SYSTEM_NOT_READY,
		    "refuses this program: no room");
	expect_join(FAKE_HANGS_UP, CUDA_ERROR_SYSTEM_NOT_READY, "does not answer");
}

TEST(noise_from_the_daemon_is_ignored)
{
	expect_join(FAKE_GARBAGE, CUDA_SUCCESS, "");
}

static const char *environment_name, *environment_value;

static void joins_elsewhere(void)
{
	const char *text;

	load_with(FAKE_GOOD);
	if (environment_value)
		setenv(environment_name, environment_value, 1);
	else
		unsetenv(environment_name);
	check(guest_function(guest, cuInit)(0) == wanted_now);
	check(guest_function(guest, cuGetErrorString)(CUDA_ERROR_UNKNOWN, &text) != 12345);
}

static void expect_environment(const char *name, const char *value, CUresult wanted,
			       const char *sentence)
{
	char said[4096];

	environment_name = name;
	environment_value = value;
	wanted_now = wanted;
	expect_eq(in_child(joins_elsewhere, said, sizeof(said)), 0);
	if (!strstr(said, sentence))
		test_fail(__FILE__, __LINE__, "said: '%s', wanted: '%s'", said, sentence);
}

TEST(a_missing_library_or_socket_is_named)
{
	expect_environment("METE_SOCKET", NULL, CUDA_ERROR_SYSTEM_NOT_READY,
			   "METE_SOCKET is not set");
	expect_environment("METE_SOCKET", "here", CUDA_ERROR_SYSTEM_NOT_READY, "absolute");
	expect_environment("METE_SOCKET", "/nonexistent/x.sock", CUDA_ERROR_SYSTEM_NOT_READY,
			   "no daemon at /nonexistent/x.sock: no such socket");
	expect_environment("METE_DRIVER", NULL, CUDA_ERROR_NO_DEVICE, "METE_DRIVER is not set");
	expect_environment("METE_DRIVER", "lib", CUDA_ERROR_NO_DEVICE, "absolute");
	expect_environment("METE_DRIVER", "/nonexistent/libcuda.so.1", CUDA_ERROR_NO_DEVICE,
			   "cannot be loaded");
	expect_environment("METE_DRIVER", getenv("METE_TEST_GUEST"),
			   CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "mete's own library");
	expect_environment("METE_DRIVER", getenv("METE_TEST_NO_DRIVER"),
			   CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "is not a CUDA driver");
}

static void another_copy(void)
{
	char path[] = "/tmp/mete-copy-XXXXXX", command[1200];
	int fd = mkstemp(path);

	check(fd >= 0);
	snprintf(command, sizeof(command), "cp %s %s", getenv("METE_TEST_GUEST"), path);
	check(system(command) == 0);
	load_with(FAKE_GOOD);
	setenv("METE_DRIVER", path, 1);
	check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	unlink(path);
}

TEST(a_copy_of_the_guest_is_no_driver)
{
	expect_eq(in_child(another_copy, NULL, 0), 0);
}

static void too_old(void)
{
	load_on("null", FAKE_GOOD);
	setenv("METE_TEST_DRIVER_VERSION", "10020", 1);
	check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

TEST(a_driver_that_is_too_old_is_refused)
{
	char said[4096];

	expect_eq(in_child(too_old, said, sizeof(said)), 0);
	expect(strstr(said, "a driver of CUDA 10.2; 11.0 is the oldest") != NULL);
}

static void talks_much(void)
{
	load_with(FAKE_REFUSES);
	for (int i = 0; i < 100; i++)
		check(guest_function(guest, cuInit)(0) == CUDA_ERROR_SYSTEM_NOT_READY);
}

TEST(the_guest_writes_at_most_sixteen_messages)
{
	char said[16384];
	int lines = 0;

	expect_eq(in_child(talks_much, said, sizeof(said)), 0);
	for (const char *c = said; *c; c++)
		lines += *c == '\n';
	expect_eq(lines, 16);
}

static void foreign_device(void)
{
	CUcontext context = NULL;

	/* The driver has two devices, the tenant one. */
	load();
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 1) == CUDA_ERROR_INVALID_DEVICE);
	check(guest_function(guest, cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS);
}

TEST(a_device_of_others_cannot_be_used)
{
	char said[4096];

	expect_eq(in_child(foreign_device, said, sizeof(said)), 0);
	expect(strstr(said, "device 1 does not belong to the tenant") != NULL);
}
