/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What concerns the whole process: checkpoints, core dumps, logs, notifications.
 *
 * Layouts and values are those of CUDA 13.0 on 64-bit Linux; `make abi-check` compares them.
 */
#pragma once

#include "cuda/types_handles.h"

/* Names that NVIDIA's OpenCL takes from this header. */
typedef enum cl_event_flags_enum {
	NVCL_EVENT_SCHED_AUTO = 0x0,
	NVCL_EVENT_SCHED_SPIN = 0x1,
	NVCL_EVENT_SCHED_YIELD = 0x2,
	NVCL_EVENT_SCHED_BLOCKING_SYNC = 0x4,
} cl_event_flags;

typedef enum cl_context_flags_enum {
	NVCL_CTX_SCHED_AUTO = 0x0,
	NVCL_CTX_SCHED_SPIN = 0x1,
	NVCL_CTX_SCHED_YIELD = 0x2,
	NVCL_CTX_SCHED_BLOCKING_SYNC = 0x4,
} cl_context_flags;

/* Notifications. */
typedef enum CUasyncNotificationType_enum {
	CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET = 0x1,
} CUasyncNotificationType;

typedef struct CUasyncNotificationInfo_st {
	CUasyncNotificationType type;
	union {
		struct {
			unsigned long long bytesOverBudget;
		} overBudget;
	} info;
} CUasyncNotificationInfo;

typedef void (*CUasyncCallback)(CUasyncNotificationInfo *info, void *userData,
				CUasyncCallbackHandle callback);

/* Checkpoints. The guest refuses them: they act on any process that can be named. */
typedef enum CUprocessState_enum {
	CU_PROCESS_STATE_RUNNING = 0,
	CU_PROCESS_STATE_LOCKED = 1,
	CU_PROCESS_STATE_CHECKPOINTED = 2,
	CU_PROCESS_STATE_FAILED = 3,
} CUprocessState;

typedef struct CUcheckpointLockArgs_st {
	unsigned int timeoutMs;
	unsigned int reserved0;
	cuuint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct CUcheckpointCheckpointArgs_st {
	cuuint64_t reserved[8];
} CUcheckpointCheckpointArgs;

typedef struct CUcheckpointGpuPair_st {
	CUuuid oldUuid;
	CUuuid newUuid;
} CUcheckpointGpuPair;

typedef struct CUcheckpointRestoreArgs_st {
	CUcheckpointGpuPair *gpuPairs;
	unsigned int gpuPairsCount;
	char reserved[44];
	cuuint64_t reserved1;
} CUcheckpointRestoreArgs;

typedef struct CUcheckpointUnlockArgs_st {
	cuuint64_t reserved[8];
} CUcheckpointUnlockArgs;

/* Core dumps of the device. */
typedef enum CUcoredumpSettings_enum {
	CU_COREDUMP_ENABLE_ON_EXCEPTION = 1,
	CU_COREDUMP_TRIGGER_HOST = 2,
	CU_COREDUMP_LIGHTWEIGHT = 3,
	CU_COREDUMP_ENABLE_USER_TRIGGER = 4,
	CU_COREDUMP_FILE = 5,
	CU_COREDUMP_PIPE = 6,
	CU_COREDUMP_GENERATION_FLAGS = 7,
	CU_COREDUMP_MAX = 8,
} CUcoredumpSettings;

typedef enum CUCoredumpGenerationFlags {
	CU_COREDUMP_DEFAULT_FLAGS = 0x0,
	CU_COREDUMP_SKIP_NONRELOCATED_ELF_IMAGES = 0x1,
	CU_COREDUMP_SKIP_GLOBAL_MEMORY = 0x2,
	CU_COREDUMP_SKIP_SHARED_MEMORY = 0x4,
	CU_COREDUMP_SKIP_LOCAL_MEMORY = 0x8,
	CU_COREDUMP_SKIP_ABORT = 0x10,
	CU_COREDUMP_SKIP_CONSTBANK_MEMORY = 0x20,
	CU_COREDUMP_LIGHTWEIGHT_FLAGS = 0x2f,
} CUCoredumpGenerationFlags;

/* The driver's log. */
typedef enum CUlogLevel_enum {
	CU_LOG_LEVEL_ERROR = 0,
	CU_LOG_LEVEL_WARNING = 1,
} CUlogLevel;

typedef void (*CUlogsCallback)(void *data, CUlogLevel logLevel, char *message, size_t length);

/* Formats of cuProfilerInitialize, which does nothing any more. */
typedef enum CUoutput_mode_enum {
	CU_OUT_KEY_VALUE_PAIR = 0x0,
	CU_OUT_CSV = 0x1,
} CUoutput_mode;
