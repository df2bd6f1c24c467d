/* SPDX-License-Identifier: Apache-2.0 */
/* Guests' parts of the store. */
#pragma once

#include "node/daemon.h"

must_check int move_store_open(struct daemon *d);
void move_store_ask(struct guest *g, uint32_t id, uint32_t device);
void move_segment_ask(struct guest *g, uint32_t id, const struct wire_segment_ask *said);
void move_segment_return(struct guest *g, uint32_t id, const struct wire_segment_return *said);
void move_segments_forget(struct guest_device *at);
/* Its connection has ended: nobody will hear of the segments that it has asked for. */
void move_segments_away(struct guest_device *at);
void move_segments_late(struct daemon *d, uint64_t now_ns);
