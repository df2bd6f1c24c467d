/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How mete's own library is told from a driver, whatever its file is called: its cuGetProcAddress()
 * answers one name, which no CUDA program asks for, with a text.
 */
#pragma once

#define PROBE_NAME   "\001mete guest"
#define PROBE_ANSWER "mete guest"
