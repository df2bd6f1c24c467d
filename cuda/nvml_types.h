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

#define NVML_API_VERSION 12

/* nvmlInitWithFlags */
#define NVML_INIT_FLAG_NO_GPUS	 1
#define NVML_INIT_FLAG_NO_ATTACH 2

/* Lengths of texts, the terminating zero included. */
#define NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE 16
#define NVML_DEVICE_UUID_BUFFER_SIZE		80
#define NVML_DEVICE_PART_NUMBER_BUFFER_SIZE	80
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE	80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE	80
#define NVML_DEVICE_NAME_BUFFER_SIZE		64
#define NVML_DEVICE_SERIAL_BUFFER_SIZE		30
#define NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE	32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE	32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE	16

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

/* nvmlDeviceGetMigMode */
#define NVML_DEVICE_MIG_DISABLE 0x0
#define NVML_DEVICE_MIG_ENABLE	0x1

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

/* Handles, opaque to callers. */
typedef struct nvmlDevice_st *nvmlDevice_t;

/* nvmlDeviceGetHandleByUUIDV */
typedef enum nvmlUUIDType_enum {
	NVML_UUID_TYPE_NONE = 0,
	NVML_UUID_TYPE_ASCII = 1,
	NVML_UUID_TYPE_BINARY = 2,
} nvmlUUIDType_t;

#define NVML_DEVICE_UUID_ASCII_LEN  41
#define NVML_DEVICE_UUID_BINARY_LEN 16

typedef union nvmlUUIDValue_st {
	char str[NVML_DEVICE_UUID_ASCII_LEN];
	unsigned char bytes[NVML_DEVICE_UUID_BINARY_LEN];
} nvmlUUIDValue_t;

typedef struct nvmlUUID_v1_st {
	unsigned int version;
	unsigned int type; /* nvmlUUIDType_t */
	nvmlUUIDValue_t value;
} nvmlUUID_v1_t;
typedef nvmlUUID_v1_t nvmlUUID_t;

/* PCI addresses. Before nvmlDeviceGetPciInfo_v3 the structure ended with four reserved words. */
typedef struct {
	unsigned int version;
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int baseClass;
	unsigned int subClass;
	char busId[32];
} nvmlPciInfoExt_v1_t;
typedef nvmlPciInfoExt_v1_t nvmlPciInfoExt_t;

typedef struct nvmlPciInfo_st {
	char busIdLegacy[16];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct nvmlPciInfo_v2_st {
	char busId[16];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int reserved0;
	unsigned int reserved1;
	unsigned int reserved2;
	unsigned int reserved3;
} nvmlPciInfo_v2_t;

/* Percent of the last sample period. */
typedef struct nvmlUtilization_st {
	unsigned int gpu;
	unsigned int memory;
} nvmlUtilization_t;

/* Bytes. */
typedef struct nvmlMemory_st {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;

typedef struct nvmlBAR1Memory_st {
	unsigned long long bar1Total;
	unsigned long long bar1Free;
	unsigned long long bar1Used;
} nvmlBAR1Memory_t;

/* One process on a device; the amount is in bytes. The unversioned functions write the first form,
 * 16 bytes a process. */
typedef struct nvmlProcessInfo_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlProcessInfo_v2_t;
typedef nvmlProcessInfo_v2_t nvmlProcessInfo_t;

/* mode: 0 compute, 1 graphics, 2 MPS. */
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
	unsigned int version;
	unsigned int mode;
	unsigned int numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;
typedef nvmlProcessDetailList_v1_t nvmlProcessDetailList_t;

/* Shape of a MIG device. */
typedef struct nvmlDeviceAttributes_st {
	unsigned int multiprocessorCount;
	unsigned int sharedCopyEngineCount;
	unsigned int sharedDecoderCount;
	unsigned int sharedEncoderCount;
	unsigned int sharedJpegCount;
	unsigned int sharedOfaCount;
	unsigned int gpuInstanceSliceCount;
	unsigned int computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

/* How far two devices are from each other. */
typedef enum nvmlGpuLevel_enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50,
} nvmlGpuTopologyLevel_t;

typedef enum nvmlGpuP2PStatus_enum {
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED = 1,
	NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
	NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
	NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
	NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,
	NVML_P2P_STATUS_UNKNOWN = 6,
} nvmlGpuP2PStatus_t;

typedef enum nvmlGpuP2PCapsIndex_enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_CAPS_INDEX_PCI = 4,
	NVML_P2P_CAPS_INDEX_PROP = 4,
	NVML_P2P_CAPS_INDEX_UNKNOWN = 5,
} nvmlGpuP2PCapsIndex_t;

/* Samples of the recent past; times in microseconds of the wall clock. */
typedef enum nvmlSamplingType_enum {
	NVML_TOTAL_POWER_SAMPLES = 0,
	NVML_GPU_UTILIZATION_SAMPLES = 1,
	NVML_MEMORY_UTILIZATION_SAMPLES = 2,
	NVML_ENC_UTILIZATION_SAMPLES = 3,
	NVML_DEC_UTILIZATION_SAMPLES = 4,
	NVML_PROCESSOR_CLK_SAMPLES = 5,
	NVML_MEMORY_CLK_SAMPLES = 6,
	NVML_MODULE_POWER_SAMPLES = 7,
	NVML_JPG_UTILIZATION_SAMPLES = 8,
	NVML_OFA_UTILIZATION_SAMPLES = 9,
	NVML_SAMPLINGTYPE_COUNT = 10,
} nvmlSamplingType_t;

/* What nvmlDeviceGetPcieLinkMaxSpeed answers; nvmlDeviceGetPcieSpeed answers the number itself. */
#define NVML_PCIE_LINK_MAX_SPEED_INVALID   0
#define NVML_PCIE_LINK_MAX_SPEED_2500MBPS  1
#define NVML_PCIE_LINK_MAX_SPEED_5000MBPS  2
#define NVML_PCIE_LINK_MAX_SPEED_8000MBPS  3
#define NVML_PCIE_LINK_MAX_SPEED_16000MBPS 4
#define NVML_PCIE_LINK_MAX_SPEED_32000MBPS 5
#define NVML_PCIE_LINK_MAX_SPEED_64000MBPS 6

typedef enum nvmlPcieUtilCounter_enum {
	NVML_PCIE_UTIL_TX_BYTES = 0,
	NVML_PCIE_UTIL_RX_BYTES = 1,
	NVML_PCIE_UTIL_COUNT = 2,
} nvmlPcieUtilCounter_t;

typedef enum nvmlValueType_enum {
	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
	NVML_VALUE_TYPE_SIGNED_INT = 5,
	NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,
	NVML_VALUE_TYPE_COUNT = 7,
} nvmlValueType_t;

typedef union nvmlValue_st {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

typedef struct nvmlSample_st {
	unsigned long long timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;

/* Properties of a device. */
typedef enum nvmlEnableState_enum {
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,
} nvmlEnableState_t;

typedef enum nvmlBrandType_enum {
	NVML_BRAND_UNKNOWN = 0,
	NVML_BRAND_QUADRO = 1,
	NVML_BRAND_TESLA = 2,
	NVML_BRAND_NVS = 3,
	NVML_BRAND_GRID = 4,
	NVML_BRAND_GEFORCE = 5,
	NVML_BRAND_TITAN = 6,
	NVML_BRAND_NVIDIA_VAPPS = 7,
	NVML_BRAND_NVIDIA_VPC = 8,
	NVML_BRAND_NVIDIA_VCS = 9,
	NVML_BRAND_NVIDIA_VWS = 10,
	NVML_BRAND_NVIDIA_CLOUD_GAMING = 11,
	NVML_BRAND_NVIDIA_VGAMING = 11,
	NVML_BRAND_QUADRO_RTX = 12,
	NVML_BRAND_NVIDIA_RTX = 13,
	NVML_BRAND_NVIDIA = 14,
	NVML_BRAND_GEFORCE_RTX = 15,
	NVML_BRAND_TITAN_RTX = 16,
	NVML_BRAND_COUNT = 17,
} nvmlBrandType_t;

typedef enum nvmlTemperatureThresholds_enum {
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
	NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
	NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
	NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN = 4,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR = 5,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX = 6,
	NVML_TEMPERATURE_THRESHOLD_GPS_CURR = 7,
	NVML_TEMPERATURE_THRESHOLD_COUNT = 8,
} nvmlTemperatureThresholds_t;

typedef enum nvmlTemperatureSensors_enum {
	NVML_TEMPERATURE_GPU = 0,
	NVML_TEMPERATURE_COUNT = 1,
} nvmlTemperatureSensors_t;

typedef enum nvmlComputeMode_enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
	NVML_COMPUTEMODE_COUNT = 4,
} nvmlComputeMode_t;

typedef enum nvmlMemoryErrorType_enum {
	NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
	NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
	NVML_MEMORY_ERROR_TYPE_COUNT = 2,
} nvmlMemoryErrorType_t;

typedef enum nvmlEccCounterType_enum {
	NVML_VOLATILE_ECC = 0,
	NVML_AGGREGATE_ECC = 1,
	NVML_ECC_COUNTER_TYPE_COUNT = 2,
} nvmlEccCounterType_t;

typedef enum nvmlClockType_enum {
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3,
	NVML_CLOCK_COUNT = 4,
} nvmlClockType_t;

typedef enum nvmlClockId_enum {
	NVML_CLOCK_ID_CURRENT = 0,
	NVML_CLOCK_ID_APP_CLOCK_TARGET = 1,
	NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 2,
	NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3,
	NVML_CLOCK_ID_COUNT = 4,
} nvmlClockId_t;

typedef enum nvmlDriverModel_enum {
	NVML_DRIVER_WDDM = 0,
	NVML_DRIVER_WDM = 1,
	NVML_DRIVER_MCDM = 2,
} nvmlDriverModel_t;

typedef enum nvmlPStates_enum {
	NVML_PSTATE_0 = 0,
	NVML_PSTATE_1 = 1,
	NVML_PSTATE_2 = 2,
	NVML_PSTATE_3 = 3,
	NVML_PSTATE_4 = 4,
	NVML_PSTATE_5 = 5,
	NVML_PSTATE_6 = 6,
	NVML_PSTATE_7 = 7,
	NVML_PSTATE_8 = 8,
	NVML_PSTATE_9 = 9,
	NVML_PSTATE_10 = 10,
	NVML_PSTATE_11 = 11,
	NVML_PSTATE_12 = 12,
	NVML_PSTATE_13 = 13,
	NVML_PSTATE_14 = 14,
	NVML_PSTATE_15 = 15,
	NVML_PSTATE_UNKNOWN = 32,
} nvmlPstates_t;

#define NVML_MAX_GPU_UTILIZATIONS 8

/* The first: multiprocessors, memory, video, bus. */
typedef struct nvmlGpuDynamicPstatesInfo_st {
	unsigned int flags;
	struct {
		unsigned int bIsPresent;
		unsigned int percentage;
		unsigned int incThreshold;
		unsigned int decThreshold;
	} utilization[NVML_MAX_GPU_UTILIZATIONS];
} nvmlGpuDynamicPstatesInfo_t;

typedef enum nvmlGom_enum {
	NVML_GOM_ALL_ON = 0,
	NVML_GOM_COMPUTE = 1,
	NVML_GOM_LOW_DP = 2,
} nvmlGpuOperationMode_t;

/* Results, from cuda/nvml_errors.def. */
typedef enum nvmlReturn_enum {
#define NVML_RESULT(name, number, text) name = number,
#include "cuda/nvml_errors.def"
#undef NVML_RESULT
} nvmlReturn_t;

/* Memory errors. */
typedef enum nvmlMemoryLocation_enum {
	NVML_MEMORY_LOCATION_L1_CACHE = 0,
	NVML_MEMORY_LOCATION_L2_CACHE = 1,
	NVML_MEMORY_LOCATION_DRAM = 2,
	NVML_MEMORY_LOCATION_DEVICE_MEMORY = 2,
	NVML_MEMORY_LOCATION_REGISTER_FILE = 3,
	NVML_MEMORY_LOCATION_TEXTURE_MEMORY = 4,
	NVML_MEMORY_LOCATION_TEXTURE_SHM = 5,
	NVML_MEMORY_LOCATION_CBU = 6,
	NVML_MEMORY_LOCATION_SRAM = 7,
	NVML_MEMORY_LOCATION_COUNT = 8,
} nvmlMemoryLocation_t;

typedef enum nvmlPageRetirementCause_enum {
	NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
	NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1,
	NVML_PAGE_RETIREMENT_CAUSE_COUNT = 2,
} nvmlPageRetirementCause_t;

/* Utilisation by process; times in microseconds of the wall clock. */
typedef struct nvmlProcessUtilizationSample_st {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil;
	unsigned int memUtil;
	unsigned int encUtil;
	unsigned int decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	unsigned long long timeStamp;
	unsigned int pid;
	unsigned int smUtil;
	unsigned int memUtil;
	unsigned int encUtil;
	unsigned int decUtil;
	unsigned int jpgUtil;
	unsigned int ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
	unsigned int version;
	unsigned int processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;
typedef nvmlProcessesUtilizationInfo_v1_t nvmlProcessesUtilizationInfo_t;
typedef unsigned int nvmlDeviceArchitecture_t;
typedef unsigned int nvmlBusType_t;

typedef enum nvmlGpuVirtualizationMode {
	NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
	NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
	NVML_GPU_VIRTUALIZATION_MODE_VGPU = 2,
	NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU = 3,
	NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA = 4,
} nvmlGpuVirtualizationMode_t;

/* One of many values asked for at once. nvmlReturn says whether it was answered. */
typedef struct nvmlFieldValue_st {
	unsigned int fieldId;
	unsigned int scopeId;
	long long timestamp;
	long long latencyUsec;
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

/* Events. nvmlEventSetWait, unlike its second version, writes the first form. */
typedef struct nvmlEventSet_st *nvmlEventSet_t;

typedef struct nvmlEventData_v1_st {
	nvmlDevice_t device;
	unsigned long long eventType;
	unsigned long long eventData;
} nvmlEventData_v1_t;

typedef struct nvmlEventData_st {
	nvmlDevice_t device;
	unsigned long long eventType;
	unsigned long long eventData;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlEventData_t;

typedef struct nvmlConfComputeMemSizeInfo_st {
	unsigned long long protectedMemSizeKib;
	unsigned long long unprotectedMemSizeKib;
} nvmlConfComputeMemSizeInfo_t;

typedef struct {
	unsigned int version;
	char branch[80];
} nvmlSystemDriverBranchInfo_v1_t;
typedef nvmlSystemDriverBranchInfo_v1_t nvmlSystemDriverBranchInfo_t;
typedef unsigned int nvmlAffinityScope_t;

typedef struct {
	unsigned int version;
	nvmlTemperatureSensors_t sensorType;
	int temperature;
} nvmlTemperature_v1_t;
typedef nvmlTemperature_v1_t nvmlTemperature_t;

typedef struct {
	unsigned int version;
	unsigned int isSupportedDevice;
} nvmlGpmSupport_t;
