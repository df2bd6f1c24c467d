/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes from the kubelet to a device plugin: they are refused, or ids whose set has one name,
 * and of which as many are preferred as are wanted. The first byte chooses the message. */
#include <stdlib.h>
#include <string.h>

#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/kubelet/ids.h"
#include "plugin/kubelet/preferred.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

static void take_ids(char *const *ids, size_t count)
{
	const char *reversed[IDS_MAX];
	char key[IDS_KEY], other[IDS_KEY];

	if (!count || count > IDS_MAX)
		return;
	for (size_t i = 0; i < count; i++) {
		reversed[count - 1 - i] = ids[i];
		must(ids_number(ids[i], "GPU-a") < 1000000 && ids_slot(ids[i]) < 1000000);
	}
	ids_key("mete.dev/gpu", (const char *const *)ids, count, key);
	ids_key("mete.dev/gpu", reversed, count, other);
	must(strcmp(key, other) == 0 && strlen(key) == IDS_KEY - 1);
	must(ids_same((const char *const *)ids, count, reversed, count));
}

static void take_allocate(const uint8_t *data, size_t size)
{
	V1beta1__AllocateRequest *request = v1beta1__allocate_request__unpack(NULL, size, data);

	if (!request)
		return;
	for (size_t i = 0; i < request->n_container_requests; i++)
		take_ids(request->container_requests[i]->devices_ids,
			 request->container_requests[i]->n_devices_ids);
	v1beta1__allocate_request__free_unpacked(request, NULL);
}

static void take_start(const uint8_t *data, size_t size)
{
	V1beta1__PreStartContainerRequest *request =
		v1beta1__pre_start_container_request__unpack(NULL, size, data);

	if (!request)
		return;
	take_ids(request->devices_ids, request->n_devices_ids);
	v1beta1__pre_start_container_request__free_unpacked(request, NULL);
}

static void choose(const struct preferred_id *ids, size_t count, size_t must_have, size_t size)
{
	struct preferred_device devices[PREFERRED_DEVICES] = {{.taken = 2}, {.taken = 1}};
	const char *chosen[IDS_MAX + 1];

	for (int way = PREFERRED_SPREAD; way <= PREFERRED_PACKED; way++) {
		size_t n = preferred_choose(ids, count, must_have, devices, (enum preferred_way)way,
					    size, chosen);

		must(n == (size < count ? size : count));
		for (size_t i = 0; i < n && i < must_have; i++)
			must(chosen[i] == ids[i].id);
	}
}

static void prefer(const V1beta1__ContainerPreferredAllocationRequest *said)
{
	size_t must_have = said->n_must_include_deviceids, n = 0;
	size_t count = must_have + said->n_available_deviceids;
	size_t size = said->allocation_size > 0 ? (size_t)said->allocation_size : 0;
	owned(free) struct preferred_id *ids = calloc(count + 1, sizeof(*ids));

	if (!ids || size > IDS_MAX || must_have > IDS_MAX)
		return;
	for (; n < count; n++) {
		const char *id = n < must_have ? said->must_include_deviceids[n]
					       : said->available_deviceids[n - must_have];

		ids[n] = (struct preferred_id){id, ids_number(id, "GPU-b") >= 0};
	}
	choose(ids, count, must_have, size);
}

static void take_preferred(const uint8_t *data, size_t size)
{
	V1beta1__PreferredAllocationRequest *request =
		v1beta1__preferred_allocation_request__unpack(NULL, size, data);

	if (!request)
		return;
	for (size_t i = 0; i < request->n_container_requests; i++)
		prefer(request->container_requests[i]);
	v1beta1__preferred_allocation_request__free_unpacked(request, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const take_one[])(const uint8_t *data,
					size_t size) = {take_allocate, take_start, take_preferred};

	if (size)
		take_one[data[0] % ARRAY_SIZE(take_one)](data + 1, size - 1);
	return 0;
}
