/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled by gcc -fopenacc with its own PTX backend: no code of ours runs on the device. */
#include <openacc.h>
#include <stdio.h>

#define N 5000

static float a[N], b[N];
static unsigned histogram[16];

int main(void)
{
	double sum = 0, wanted = 0;
	unsigned counted = 0;

	if (acc_get_device_type() != acc_device_nvidia) {
		puts("no device");
		return 1;
	}
	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = 2 * (float)i;
		wanted += 3.0 * i;
	}
#pragma acc parallel loop copyin(a) copy(b) copy(sum) reduction(+ : sum)
	for (int i = 0; i < N; i++) {
		b[i] += a[i];
		sum += b[i];
	}
#pragma acc parallel loop copy(histogram) async(1)
	for (int i = 0; i < N; i++) {
#pragma acc atomic update
		histogram[i % 16]++;
	}
#pragma acc wait(1)
	for (int i = 0; i < 16; i++)
		counted += histogram[i];
	printf("openacc: sum %.0f (wanted %.0f), b[10] %.0f, counted %u\n", sum, wanted, b[10],
	       counted);
	return sum == wanted && b[10] == 30 && counted == N ? 0 : 1;
}
