/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has happened (node/events.h), for the next meted: the file PLACE/events, which only meted's
 * user can read. An event is appended when it happens, so that a meted that is killed loses none;
 * once as many are appended as meted keeps, the file is written anew with those that it keeps. So
 * it is bounded. While it cannot be written (a full disk) that is tried again with the first event
 * after ten seconds, and at meted's end; then it has what was lost. What is not whole is ignored,
 * with one line in the log. Nothing depends on the file: without it, events end with meted.
 */
#pragma once

#include "node/daemon.h"

/* Brings back what the former meted has written. Before its tenants are back: what is told of that
 * comes later. */
void events_file_open(struct daemon *d);
void events_file_close(struct daemon *d);
