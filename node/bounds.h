/* SPDX-License-Identifier: Apache-2.0 */
/* Upper bounds of everything that meted has. */
#pragma once

enum {
	DAEMON_DEVICES = 64,
	DAEMON_TENANTS = 1024,
	DAEMON_TENANTS_OF_USERS = 768, /* the others are root's */
	DAEMON_TENANTS_WITHIN = 31,    /* another one; of a cap below 3.2 % fewer */
	DAEMON_USERS = 1024,
	DAEMON_IDS = 256,  /* lists of tenants by their ids' remainder */
	DAEMON_PIDS = 256, /* lists of guests by their pids' remainder */
	DAEMON_GUESTS = 2048,
	DAEMON_BUSY = 256, /* processes on a device whose time is compared with the driver's */
	DAEMON_GUESTS_OF_TENANT = 512,
	DAEMON_GUESTS_SURE = 4, /* reserved for each tenant, whatever the others do */
	DAEMON_SEATS = DAEMON_GUESTS + DAEMON_TENANTS * DAEMON_GUESTS_SURE,
	DAEMON_SILENT_OF_TENANT = 64,	 /* connections that have not sent HELLO */
	DAEMON_FILES_KEPT = 64,		 /* descriptors that guests never get */
	DAEMON_PAUSE_MS = 20,		 /* of a listener that must wait */
	DAEMON_STRANGERS_OF_TENANT = 32, /* connections that are being told why they are refused */
	DAEMON_ASKS = 2048,		 /* waiting ones, in addition to the reserved ones */
	DAEMON_ASKS_SURE = 4, /* reserved for each tenant and device, whatever the others do */
	DAEMON_ASKS_OF_TENANT = 512, /* at most, on a device */
	DAEMON_ASKS_OF_GUEST = 64,
	DAEMON_PRICES = 16, /* models of devices, and versions of the driver that guests see */
};
