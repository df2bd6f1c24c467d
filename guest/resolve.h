/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the driver's answer, with the address of one of its exported functions replaced
 * by ours. An address that is not an exported function of the table is matched by exact name,
 * version and stream; what remains of an enforcing function's name is a version that we do not
 * know: passed through and counted, or refused where the share is strict.
 * A name that no CUDA program asks for (cuda/probe.h) answers a constant.
 */
#pragma once
