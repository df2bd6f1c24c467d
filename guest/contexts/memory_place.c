/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/memory_place.h"

#include "guest/contexts/current.h"
#include "guest/contexts/devices.h"
#include "guest/process/join.h"
#include "guest/process/state.h"

CUresult memory_begin(struct memory_place *ret_place, bool nested)
{
	struct memory_place place = {NULL, -1, false};
	CUresult r;

	if (likely(!nested)) {
		r = state_joined() ? CUDA_SUCCESS : state_ready();
		if (unlikely(r != CUDA_SUCCESS))
			return r;
		if (likely(state_joined()))
			place.device = current_find(&place.context);
		if (likely(place.context)) {
			if (unlikely(place.device == -2))
				place.device = devices_of_context(place.context);
			place.tracked = true;
		}
	}
	*ret_place = place;
	return CUDA_SUCCESS;
}
