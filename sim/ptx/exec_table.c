/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/exec_table.h"

#define UN(id, ...)					     X(id),
#define BIN(id, ...)					     X(id),
#define TER(id, ...)					     X(id),
#define QUAD(id, ...)					     X(id),
#define CARRY(id, ...)					     X(id),
#define SELP(id, ...)					     X(id),
#define PRED(id, ...)					     X(id),
#define SETP(id, ...)					     X(id),
#define FSETP(id, ...)					     X(id),
#define SET(id, ...)					     X(id),
#define TESTP(id, ...)					     X(id),
#define FUN(id, ...)					     X(id),
#define FBIN(id, ...)					     X(id),
#define FTER(id, ...)					     X(id),
#define HUN(id, ...)					     X(id),
#define HBIN(id, ...)					     X(id),
#define HTER(id, ...)					     X(id),
#define HBITS(id, ...)					     X(id),
#define GEN(id, pattern, operands, kind, function, argument) X(function),

code_fn *const X(functions)[] = {
#include "sim/ptx/ptx.def"
};
