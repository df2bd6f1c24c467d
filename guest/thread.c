/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/thread.h"

__thread struct guest_thread guest_thread;
