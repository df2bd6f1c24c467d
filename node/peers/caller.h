/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to a tenant's socket, until HELLO, and their end. */
#pragma once

#include "node/daemon.h"
