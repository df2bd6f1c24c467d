/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of ptx.def, in the order of its rows, for one instruction set (PTX_ISA).
 */
#pragma once

#include "sim/ptx/exec.h"

#define UN(id, ...)					     code_fn X(id);
#define BIN(id, ...)					     code_fn X(id);
#define TER(id, ...)					     code_fn X(id);
#define QUAD(id, ...)					     code_fn X(id);
#define CARRY(id, ...)					     code_fn X(id);
#define SELP(id, ...)					     code_fn X(id);
#define PRED(id, ...)					     code_fn X(id);
#define SETP(id, ...)					     code_fn X(id);
#define FSETP(id, ...)					     code_fn X(id);
#define SET(id, ...)					     code_fn X(id);
#define TESTP(id, ...)					     code_fn X(id);
#define FUN(id, ...)					     code_fn X(id);
#define FBIN(id, ...)					     code_fn X(id);
#define FTER(id, ...)					     code_fn X(id);
#define HUN(id, ...)					     code_fn X(id);
#define HBIN(id, ...)					     code_fn X(id);
#define HTER(id, ...)					     code_fn X(id);
#define HBITS(id, ...)					     code_fn X(id);
#define GEN(id, pattern, operands, kind, function, argument) code_fn X(function);
#include "sim/ptx/ptx.def"

extern code_fn *const X(functions)[];
/* Conversions between two types whose registers are exactly as wide as they; NULL: cvt does it. */
code_fn *X(cvt_for)(unsigned to, unsigned from, uint32_t aux);
