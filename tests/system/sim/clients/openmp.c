/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled by gcc -fopenmp with its own PTX backend; on the device it needs malloc, locks, printf
 * and libm, all from PTX that GCC brings along. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define N 64

#pragma omp declare target
int fibonacci(int n);
int fibonacci(int n)
{
	int a = 0, b = 1;

	while (n--) {
		int next = a + b;

		a = b;
		b = next;
	}
	return a;
}
#pragma omp end declare target

int main(void)
{
	int numbers[N], wrong = 0, counted = 0, host = 1;
	double maths[N];

#pragma omp target teams distribute parallel for map(from : numbers, maths)
	for (int i = 0; i < N; i++) {
		int *cells = malloc(4 * sizeof(int));

		cells[i % 4] = fibonacci(i % 12);
		numbers[i] = cells[i % 4];
		free(cells);
		maths[i] = sqrt(i) * sin(i);
	}
#pragma omp target map(tofrom : counted) map(from : host)
	{
		host = omp_is_initial_device();
#pragma omp parallel
		{
#pragma omp critical
			counted++;
		}
		printf("openmp: %d threads counted\n", counted);
	}
	for (int i = 0; i < N; i++)
		wrong +=
			numbers[i] != fibonacci(i % 12) || fabs(maths[i] - sqrt(i) * sin(i)) > 1e-9;
	printf("openmp: %d wrong, %d counted, on the %s\n", wrong, counted,
	       host ? "host" : "device");
	return wrong || counted < 2 || host;
}
