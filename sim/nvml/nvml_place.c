/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: where a device is, on PCI, and whether it is a part of one (MIG). */
#include <string.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/nvml/nvml.h"

enum { NVML_VENDOR = 0x10de };

static unsigned int pci_id(int number)
{
	return device_shape(number)->pci_device << 16 | NVML_VENDOR;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof(*pci));
	device_pci_text(n, pci->busIdLegacy);
	snprintf(pci->busId, sizeof(pci->busId), "0000%s", pci->busIdLegacy);
	pci->bus = device_pci_bus(n);
	pci->pciDeviceId = pci_id(n);
	pci->pciSubSystemId = pci_id(n);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof(*pci));
	device_pci_text(n, pci->busId);
	pci->bus = device_pci_bus(n);
	pci->pciDeviceId = pci_id(n);
	pci->pciSubSystemId = pci_id(n);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
	return nvmlDeviceGetPciInfo_v2(device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
	char text[16];
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (pci->version != NVML_STRUCT_VERSION(PciInfoExt, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	device_pci_text(n, text);
	snprintf(pci->busId, sizeof(pci->busId), "0000%s", text);
	pci->domain = pci->device = 0;
	pci->bus = device_pci_bus(n);
	pci->pciDeviceId = pci_id(n);
	pci->pciSubSystemId = pci_id(n);
	pci->baseClass = 3; /* display controller */
	pci->subClass = 2;  /* 3D */
	return NVML_SUCCESS;
}

static nvmlReturn_t two(nvmlDevice_t first, nvmlDevice_t second, int *ret_first, int *ret_second)
{
	nvmlReturn_t r = nvml_device(first, ret_first);

	return r == NVML_SUCCESS ? nvml_device(second, ret_second) : r;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second,
				    nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
	int a, b;
	nvmlReturn_t r = two(first, second, &a, &b);

	if (r != NVML_SUCCESS)
		return r;
	if (!status || a == b || (unsigned)index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
		return NVML_ERROR_INVALID_ARGUMENT;
	*status = device_peer(a, b) && index != NVML_P2P_CAPS_INDEX_PCI
			  ? NVML_P2P_STATUS_OK
			  : NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int *same)
{
	int a, b;
	nvmlReturn_t r = two(first, second, &a, &b);

	if (r != NVML_SUCCESS)
		return r;
	if (!same)
		return NVML_ERROR_INVALID_ARGUMENT;
	*same = a == b;
	return NVML_SUCCESS;
}

/* One NUMA node with all processors. */
static nvmlReturn_t first_bits(nvmlDevice_t device, unsigned int words, unsigned long *set,
			       unsigned long bits)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!set || !words)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(set, 0, words * sizeof(*set));
	for (unsigned long i = 0; i < bits && i < words * sizeof(*set) * 8; i++)
		set[i / (sizeof(*set) * 8)] |= 1UL << i % (sizeof(*set) * 8);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
	return first_bits(device, words, set, (unsigned long)sysconf(_SC_NPROCESSORS_CONF));
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words,
					 unsigned long *set, nvmlAffinityScope_t scope)
{
	if (scope != NVML_AFFINITY_SCOPE_NODE && scope != NVML_AFFINITY_SCOPE_SOCKET)
		return NVML_ERROR_INVALID_ARGUMENT;
	return first_bits(device, words, set, 1);
}

/* ---- MIG: a mode that can be shown; no instances are made ---------------------------------- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!nvml_has_mig(n))
		return NVML_ERROR_NOT_SUPPORTED;
	*current = *pending =
		segment_settings()->mig ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						 nvmlDevice_t *mig)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!nvml_has_mig(n))
		return NVML_ERROR_NOT_SUPPORTED;
	if (!mig || index >= 7)
		return NVML_ERROR_INVALID_ARGUMENT;
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
	int n;
	nvmlReturn_t r = nvml_device(mig, &n);

	(void)device;
	return r == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : r;
}

static nvmlReturn_t attributes_of(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	/* Attributes are those of MIG devices. */
	return attributes ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	return attributes_of(device, attributes);
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	return attributes_of(device, attributes);
}
