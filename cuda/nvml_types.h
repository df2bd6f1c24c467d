/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of NVML that the functions with a prototype in cuda/nvml.def use, declared by us.
 *
 * Names, layouts and values are those of NVML 12.9 on 64-bit Linux; `make abi-check` compares them.
 * Two types have no name in today's header, because today's functions do not use them any more:
 * nvmlPciInfo_v2_t and nvmlEventData_v1_t are what old functions of old programs expect, and are
 * shorter: writing today's form there would write past the caller's memory.
 *
 * This header must not be included beside NVIDIA's nvml.h.
 */
#pragma once

#include "cuda/nvml_types_device.h"
#include "cuda/nvml_types_mig.h"
#include "cuda/nvml_types_usage.h"

#define NVML_API_VERSION 12

/* nvmlInitWithFlags */
#define NVML_INIT_FLAG_NO_GPUS	 1
#define NVML_INIT_FLAG_NO_ATTACH 2

/* As an amount: not known. */
#define NVML_VALUE_NOT_AVAILABLE (-1)

/* The version field of structures that have one. */
#define NVML_STRUCT_VERSION(name, version)                                                         \
	((unsigned int)(sizeof(nvml##name##_v##version##_t) | ((version) << 24U)))

/* nvmlDeviceGetArchitecture */
#define NVML_DEVICE_ARCH_KEPLER	   2
#define NVML_DEVICE_ARCH_MAXWELL   3
#define NVML_DEVICE_ARCH_PASCAL	   4
#define NVML_DEVICE_ARCH_VOLTA	   5
#define NVML_DEVICE_ARCH_TURING	   6
#define NVML_DEVICE_ARCH_AMPERE	   7
#define NVML_DEVICE_ARCH_ADA	   8
#define NVML_DEVICE_ARCH_HOPPER	   9
#define NVML_DEVICE_ARCH_BLACKWELL 10
#define NVML_DEVICE_ARCH_UNKNOWN   0xffffffff

/* nvmlDeviceGetBusType */
#define NVML_BUS_TYPE_UNKNOWN 0
#define NVML_BUS_TYPE_PCI     1
#define NVML_BUS_TYPE_PCIE    2

/* nvmlDeviceGetMemoryAffinity */
#define NVML_AFFINITY_SCOPE_NODE   0
#define NVML_AFFINITY_SCOPE_SOCKET 1

/* nvmlDeviceGetFieldValues: some of the fields. */
#define NVML_FI_DEV_ECC_CURRENT		     1
#define NVML_FI_DEV_ECC_PENDING		     2
#define NVML_FI_DEV_MEMORY_TEMP		     82
#define NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION 83
#define NVML_FI_DEV_PCIE_REPLAY_COUNTER	     94
#define NVML_FI_DEV_POWER_AVERAGE	     185
#define NVML_FI_DEV_POWER_INSTANT	     186
#define NVML_FI_DEV_POWER_MIN_LIMIT	     187
#define NVML_FI_DEV_POWER_MAX_LIMIT	     188
#define NVML_FI_DEV_POWER_DEFAULT_LIMIT	     189
#define NVML_FI_DEV_POWER_CURRENT_LIMIT	     190
#define NVML_FI_MAX			     274

/* Bits of events: nvmlDeviceRegisterEvents */
#define nvmlEventTypeNone	       0x0LL
#define nvmlEventTypeSingleBitEccError 0x1LL
#define nvmlEventTypeDoubleBitEccError 0x2LL
#define nvmlEventTypePState	       0x4LL
#define nvmlEventTypeXidCriticalError  0x8LL
#define nvmlEventTypeClock	       0x10LL
#define nvmlEventTypePowerSourceChange 0x80LL
#define nvmlEventMigConfigChange       0x100LL

/* Bits of what holds clocks down: nvmlDeviceGetCurrentClocksEventReasons */
#define nvmlClocksEventReasonNone		       0x0LL
#define nvmlClocksEventReasonGpuIdle		       0x1LL
#define nvmlClocksEventReasonApplicationsClocksSetting 0x2LL
#define nvmlClocksEventReasonSwPowerCap		       0x4LL
