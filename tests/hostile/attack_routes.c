/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to the driver's functions that lead past the guest, or would. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

/* Where a guest is found under that name, it takes what the guest lets it. */
static void take_by_symbol(void *symbol)
{
	if (symbol)
		take_everything_by((api_fn_cuMemAlloc_v2 *)symbol);
}

void attack_by_dlsym(void)
{
	take_by_symbol(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	take_by_symbol(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
	take_by_symbol(dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2"));
	take_by_symbol(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND), "cuMemAlloc_v2"));
	take_by_symbol(dlsym(dlopen("libcuda.so", RTLD_NOW), "cuMemAlloc_v2"));
}

static int look_into(struct dl_phdr_info *info, size_t size, void *found)
{
	unsigned *count = found;
	void *handle;

	(void)size;
	/* By its own path the driver is the driver's: that is another attack (absolute_path). */
	if (!strstr(info->dlpi_name, "mete.so") && !strstr(info->dlpi_name, "guest"))
		return 0;
	handle = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	*count += handle != NULL;
	take_by_symbol(handle ? dlsym(handle, "cuMemAlloc_v2") : NULL);
	take_by_symbol(handle ? dlvsym(handle, "cuMemAlloc_v2", "libcuda.so.1") : NULL);
	return 0;
}

void attack_by_dlvsym(void)
{
	unsigned count = 0;

	take_by_symbol(dlvsym(RTLD_DEFAULT, "cuMemAlloc_v2", "libcuda.so.1"));
	take_by_symbol(dlvsym(RTLD_NEXT, "cuMemAlloc_v2", "GLIBC_2.2.5"));
	dl_iterate_phdr(look_into, &count);
}

void attack_by_getproc(void)
{
	static const int versions[] = {2000, 3020, 4000, 6050, 10000, 11020, 12000, 12090, 13000};
	void *found;

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		for (uint64_t flags = 0; flags < 3; flags++) {
			CUdriverProcAddressQueryResult how;

			found = NULL;
			CALL(cuGetProcAddress)("cuMemAlloc", &found, versions[i], flags);
			take_by_symbol(versions[i] >= 3020 ? found : NULL);
			found = NULL;
			CALL(cuGetProcAddress_v2)
			("cuMemAlloc", &found, versions[i], flags, &how);
			take_by_symbol(versions[i] >= 3020 ? found : NULL);
			/* A look-up of the look-up. */
			found = NULL;
			CALL(cuGetProcAddress_v2)
			("cuGetProcAddress", &found, 12000, flags, &how);
			if (found)
				((api_fn_cuGetProcAddress_v2 *)found)("cuMemAlloc_v2", &found,
								      12000, flags, &how);
			found = NULL;
		}
	take_everything();
}

void attack_by_table(void)
{
	CUuuid id = {{0}};
	const void *table;

	for (int i = 0; i < 256; i++) {
		memset(&id, i, sizeof(id));
		CALL(cuGetExportTable)(&table, &id);
	}
	take_everything();
}

void attack_second_copy(void)
{
	const char *preload = getenv("LD_PRELOAD");
	char path[] = "/tmp/mete-copy-XXXXXX", first[4096];
	int from, to = mkstemp(path);
	struct stat there;

	take_by_symbol(dlsym(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"));
	snprintf(first, sizeof(first), "%.*s", preload ? (int)strcspn(preload, ": ") : 0,
		 preload ? preload : "");
	from = open(first, O_RDONLY | O_CLOEXEC);
	if (from >= 0 && to >= 0 && fstat(from, &there) == 0 &&
	    sendfile(to, from, NULL, (size_t)there.st_size) == there.st_size) {
		void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		api_fn_cuInit *init = copy ? (api_fn_cuInit *)dlsym(copy, "cuInit") : NULL;

		if (init && init(0) == CUDA_SUCCESS)
			take_by_symbol(dlsym(copy, "cuMemAlloc_v2"));
	}
	unlink(path);
	take_everything();
}

void attack_wrong_socket(void)
{
	char path[64];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int own = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(path, sizeof(path), "/tmp/mete-own-%d", (int)getpid());
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (bind(own, (struct sockaddr *)&address, sizeof(address)) == 0)
		listen(own, 5);
	setenv("METE_SOCKET", path, 1);
	alarm(20);
	start_and_take();
	unlink(path);
	alarm(0);
}

void attack_wrong_driver(void)
{
	setenv("METE_DRIVER", "/nonexistent", 1);
	start_and_take();
}

void attack_settings(void)
{
	static const char *const names[] = {"METE_LIMIT",	  "METE_MEMORY", "METE_DISABLE",
					    "METE_OFF",		  "METE_TENANT", "METE_DEBUG",
					    "METE_ON_DAEMON_LOSS"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		setenv(names[i], "99999999999", 1);
	start_and_take();
}

/* The driver's folder as mete run found it. */
static void driver_first(void)
{
	const char *driver = getenv("METE_DRIVER");

	if (driver)
		setenv("LD_LIBRARY_PATH", driver, 1);
}

void attack_clears_preload(void)
{
	driver_first();
	unsetenv("LD_PRELOAD");
	become("take-linear");
}

void attack_empty_env(void)
{
	char libraries[4096], sim[4096];
	const char *driver = getenv("METE_DRIVER"), *folder = getenv("METE_SIM_DIR");
	char *environment[] = {libraries, sim, NULL};

	snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s", driver ? driver : "");
	/* The simulated machine is where its variable says: a real one needs nothing. */
	snprintf(sim, sizeof(sim), "METE_SIM_DIR=%s", folder ? folder : "");
	execle("/proc/self/exe", "attack", "take-linear", (char *)NULL, environment);
	_exit(127);
}

/* tests/hostile/auditor.c, beside this program. */
void attack_audited(void)
{
	char path[4096];
	ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 32);

	if (size < 0)
		_exit(127);
	path[size] = '\0';
	strcpy(strrchr(path, '/') + 1, "auditor.so");
	setenv("LD_AUDIT", path, 1);
	become("take-linear");
}

void attack_absolute_path(void)
{
	const char *folder = getenv("METE_DRIVER");
	char path[4096];

	snprintf(path, sizeof(path), "%s/libcuda.so.1", folder ? folder : "");
	take_by_symbol(dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "cuMemAlloc_v2"));
}

void attack_joins_neighbour(void)
{
	const char *socket = getenv("HOSTILE_NEIGHBOUR");

	if (socket)
		setenv("METE_SOCKET", socket, 1);
	start_and_take();
}
