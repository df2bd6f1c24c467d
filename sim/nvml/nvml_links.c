/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: how devices are linked, by PCI and by NVLink. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/machine/links.h"
#include "sim/nvml/nvml.h"

static struct links links;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_links(void)
{
	struct fault why = {{0}};

	if (links_read(getenv("METE_SIM_LINKS"), (unsigned)device_count(), &links, &why) < 0)
		fprintf(stderr, "mete sim: %s\n", why.text);
}

static const struct links *links_now(void)
{
	pthread_once(&once, read_links);
	return &links;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second,
						 nvmlGpuTopologyLevel_t *level)
{
	int a, b;
	nvmlReturn_t r = nvml_device(first, &a);

	if (r == NVML_SUCCESS)
		r = nvml_device(second, &b);
	if (r != NVML_SUCCESS)
		return r;
	if (!level)
		return NVML_ERROR_INVALID_ARGUMENT;
	*level = a == b ? NVML_TOPOLOGY_INTERNAL : (nvmlGpuTopologyLevel_t)links_now()->level[a][b];
	return NVML_SUCCESS;
}

/* The device that this link leads to; -1: a switch, or nothing. */
static int leads_to(int n, unsigned int link)
{
	for (int other = 0; other < device_count(); other++) {
		unsigned count = links_now()->nvlinks[n][other];

		if (link < count)
			return other;
		link -= count;
	}
	return -1;
}

static nvmlReturn_t nvlink(nvmlDevice_t device, unsigned int link, int *ret_number)
{
	nvmlReturn_t r = nvml_device(device, ret_number);

	if (r != NVML_SUCCESS)
		return r;
	if (!device_shape(*ret_number)->nvlinks)
		return NVML_ERROR_NOT_SUPPORTED;
	return link < device_shape(*ret_number)->nvlinks ? NVML_SUCCESS
							 : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
				      nvmlEnableState_t *active)
{
	int n;
	nvmlReturn_t r = nvlink(device, link, &n);
	bool leads;

	if (r != NVML_SUCCESS)
		return r;
	if (!active)
		return NVML_ERROR_INVALID_ARGUMENT;
	leads = links_now()->given ? leads_to(n, link) >= 0 : device_count() > 1;
	*active = leads ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

/* The address of a switch: any that is no device's. */
static void of_switch(nvmlPciInfo_t *pci)
{
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:C4:00.0");
	snprintf(pci->busId, sizeof(pci->busId), "00000000:C4:00.0");
	pci->bus = 0xc4;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
						 nvmlPciInfo_t *pci)
{
	int n, other;
	nvmlReturn_t r = nvlink(device, link, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	other = leads_to(n, link);
	if (other >= 0)
		return nvmlDeviceGetPciInfo_v3(nvml_handle(other), pci);
	if (links_now()->given || device_count() == 1)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(pci, 0, sizeof(*pci));
	of_switch(pci);
	return NVML_SUCCESS;
}
