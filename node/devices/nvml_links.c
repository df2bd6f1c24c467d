/* SPDX-License-Identifier: Apache-2.0 */
/* How the machine's whole GPUs are linked, and with those of which other machines. */
#include <stdlib.h>
#include <string.h>

#include "node/devices/nvml_inside.h"

enum { MOST_LINKS = 18 }; /* NVML_NVLINK_MAX_LINKS */

static struct nvml_link *between(const struct nvml *nvml, uint32_t a, uint32_t b)
{
	return &nvml->links[(size_t)a * nvml->linked + b];
}

/* The device with that address, unless it is a part of a GPU; `linked`: there is none. */
static uint32_t find(const struct nvml *nvml, const nvmlPciInfo_t *pci)
{
	uint32_t i = 0;

	while (i < nvml->linked &&
	       (nvml->devices[i].gpu_instance >= 0 ||
		strncmp(nvml->devices[i].pci, pci->busId, sizeof(nvml->devices[i].pci)) != 0))
		i++;
	return i;
}

static void count_nvlinks(const struct nvml *nvml, uint32_t a)
{
	for (unsigned int link = 0; link < MOST_LINKS; link++) {
		nvmlEnableState_t active = NVML_FEATURE_DISABLED;
		nvmlPciInfo_t pci;
		uint32_t b;

		if (nvml->nvmlDeviceGetNvLinkState(nvml->handles[a], link, &active) !=
			    NVML_SUCCESS ||
		    active != NVML_FEATURE_ENABLED ||
		    nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml->handles[a], link, &pci) !=
			    NVML_SUCCESS)
			continue;
		b = find(nvml, &pci);
		if (b < nvml->linked)
			between(nvml, a, b)->nvlinks++;
	}
}

static void read_levels(const struct nvml *nvml, uint32_t a)
{
	for (uint32_t b = 0; b < nvml->linked; b++) {
		nvmlGpuTopologyLevel_t level;

		if (a != b && nvml->devices[b].gpu_instance < 0 &&
		    nvml->nvmlDeviceGetTopologyCommonAncestor(nvml->handles[a], nvml->handles[b],
							      &level) == NVML_SUCCESS)
			between(nvml, a, b)->level = (uint8_t)level;
	}
}

void nvml_read_links(struct nvml *nvml)
{
	size_t count = nvml->read;

	nvml->linked = nvml->read;
	nvml->links = count > 1 ? calloc(count * count, sizeof(*nvml->links)) : NULL;
	for (uint32_t i = 0; nvml->links && i < count; i++) {
		if (nvml->devices[i].gpu_instance >= 0)
			continue;
		if (nvml->nvmlDeviceGetTopologyCommonAncestor)
			read_levels(nvml, i);
		if (nvml->nvmlDeviceGetNvLinkState && nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2)
			count_nvlinks(nvml, i);
	}
}

static bool read_fabric(const struct nvml *nvml, uint32_t index, nvmlGpuFabricInfo_t *ret_fabric)
{
	return nvml->nvmlDeviceGetGpuFabricInfo &&
	       nvml->nvmlDeviceGetGpuFabricInfo(nvml->gpus[index], ret_fabric) == NVML_SUCCESS;
}

bool nvml_has_fabric(const struct nvml *nvml, uint32_t index)
{
	nvmlGpuFabricInfo_t fabric;

	return read_fabric(nvml, index, &fabric);
}

void nvml_clique(const struct nvml *nvml, uint32_t index, char ret_clique[NVML_CLIQUE])
{
	static const unsigned char none[sizeof(((nvmlGpuFabricInfo_t *)0)->clusterUuid)];
	nvmlGpuFabricInfo_t f = {.state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};
	const unsigned char *u = f.clusterUuid;

	*ret_clique = '\0';
	if (!nvml->devices[index].has_fabric || !read_fabric(nvml, index, &f) ||
	    f.state != NVML_GPU_FABRIC_STATE_COMPLETED || f.status != NVML_SUCCESS ||
	    memcmp(u, none, sizeof(none)) == 0)
		return;
	snprintf(ret_clique, NVML_CLIQUE,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x.%u", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15], f.cliqueId);
}

bool nvml_set_clique(struct nvml *nvml, uint32_t index, const char clique[NVML_CLIQUE])
{
	if (strcmp(nvml->devices[index].clique, clique) == 0)
		return false;
	snprintf(nvml->devices[index].clique, NVML_CLIQUE, "%s", clique);
	return true;
}

struct nvml_link nvml_link(const struct nvml *nvml, uint32_t a, uint32_t b)
{
	/* Devices made since are parts, which have none, or GPUs whose links are read when meted
	 * starts again. */
	if (!nvml->links || a >= nvml->linked || b >= nvml->linked)
		return (struct nvml_link){0};
	return *between(nvml, a, b);
}
