/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_seats.h"

static const uint64_t second_ns = 1000000000;

void http_seats_init(struct http_seats *seats)
{
	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++)
		seats->seat[i] = (struct http_seat){.fd = -1};
}

struct http_seat *http_seats_find(struct http_seats *seats, int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++)
		if (seats->seat[i].fd == fd)
			return &seats->seat[i];
	return NULL;
}

/* libmicrohttpd notices, and closes the descriptor. */
static void cut(struct http_seat *seat)
{
	shutdown(seat->fd, SHUT_RDWR);
	seat->left = true;
}

static bool is_taken(const struct http_seat *seat)
{
	return seat->fd >= 0 && !seat->left;
}

static uint32_t count_taken(const struct http_seats *seats)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++)
		n += is_taken(&seats->seat[i]);
	return n;
}

static const struct http_host *host_at(const void *table, size_t i)
{
	const struct http_seats *seats = table;

	return is_taken(&seats->seat[i]) ? &seats->seat[i].host : NULL;
}

/* Only a connection that may be cut. */
static const struct http_host *cuttable_at(const void *table, size_t i)
{
	const struct http_seats *seats = table;

	return seats->seat[i].waits ? NULL : host_at(table, i);
}

/* The connection of the host to cut: first an answered one, then one that reads slowly, and the
 * longest of these. */
static struct http_seat *least_due(struct http_seats *seats, const struct http_host *host,
				   uint64_t now_ns)
{
	struct http_seat *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++) {
		struct http_seat *seat = &seats->seat[i];

		if (!is_taken(seat) || seat->waits || !http_host_same(&seat->host, host))
			continue;
		if (seat->answers && now_ns - seat->since_ns < HTTP_READING_S * second_ns)
			continue;
		if (!found || seat->answers < found->answers ||
		    (seat->answers == found->answers && seat->since_ns < found->since_ns))
			found = seat;
	}
	return found;
}

bool http_seats_offer(struct http_seats *seats, const struct http_host *host, uint64_t now_ns)
{
	const size_t places = ARRAY_SIZE(seats->seat);
	bool own = http_host_count(seats, places, host_at, host) >= HTTP_SEATS_EACH;
	struct http_seat *seat;

	if (own || count_taken(seats) >= HTTP_SEATS) {
		const struct http_host *whose =
			own ? host : http_host_largest(seats, places, cuttable_at);

		seat = whose ? least_due(seats, whose, now_ns) : NULL;
		if (!seat)
			return false;
		cut(seat);
	}
	return http_seats_find(seats, -1);
}

struct http_seat *http_seats_take(struct http_seats *seats, int fd, const struct http_host *host,
				  uint64_t now_ns)
{
	struct http_seat *seat = http_seats_find(seats, -1);

	if (seat)
		*seat = (struct http_seat){
			.fd = fd, .host = *host, .from = *host, .since_ns = now_ns};
	return seat;
}

static const struct http_host *streaming_at(const void *table, size_t i)
{
	const struct http_seats *seats = table;

	return seats->seat[i].streams ? host_at(table, i) : NULL;
}

/* A stream of the host that has the most, but not a host's only one. */
static struct http_seat *surplus(struct http_seats *seats)
{
	const size_t places = ARRAY_SIZE(seats->seat);
	const struct http_host *most = http_host_largest(seats, places, streaming_at);
	struct http_seat *newest = NULL;

	if (!most || http_host_count(seats, places, streaming_at, most) < 2)
		return NULL;
	for (size_t i = 0; i < places; i++) {
		struct http_seat *seat = &seats->seat[i];

		if (streaming_at(seats, i) && http_host_same(&seat->host, most) &&
		    (!newest || seat->began_ns > newest->began_ns))
			newest = seat;
	}
	return newest;
}

bool http_seats_may_stream(struct http_seats *seats, const struct http_host *whose,
			   struct http_seat **ret_instead)
{
	uint32_t own = http_host_count(seats, ARRAY_SIZE(seats->seat), streaming_at, whose);
	uint32_t all = 0;

	*ret_instead = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++)
		all += streaming_at(seats, i) != NULL;
	/* Once half of them are taken, a host may have two at most. */
	if (own >= (all < HTTP_STREAMS_EACH ? HTTP_STREAMS_EACH : 2))
		return false;
	if (all < HTTP_STREAMS)
		return true;
	if (!own)
		*ret_instead = surplus(seats);
	return *ret_instead;
}

bool http_seats_await(const struct http_seats *seats)
{
	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++)
		if (is_taken(&seats->seat[i]) && !seats->seat[i].spoke)
			return true;
	return false;
}

/* libmicrohttpd's own time-out only detects silence: without this, a byte from time to time would
 * keep a connection open. */
uint64_t http_seats_cut(struct http_seats *seats, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(seats->seat); i++) {
		struct http_seat *seat = &seats->seat[i];
		uint64_t due = seat->since_ns + HTTP_PATIENCE_S * second_ns;

		if (!is_taken(seat) || seat->waits)
			continue;
		if (now_ns >= due)
			cut(seat);
		else if (due < next)
			next = due;
	}
	return next;
}
