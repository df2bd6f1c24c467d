/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress returns the driver's answer; if that is one of its exported functions, the
 * address is replaced by ours. An address that is not an exported function of the table is matched
 * by exact name, version and stream. If the name is that of an enforcing function, this is a
 * version that we do not know: it is passed through and counted, or refused if the share is strict.
 * A name that no CUDA program asks for (cuda/probe.h) returns a constant.
 */
#pragma once
