/* SPDX-License-Identifier: Apache-2.0 */
#include "page/access.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "http/http_listen.h"

static bool is_loopback(const struct http_address *address)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->name;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&address->name;

	if (address->name.ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return address->name.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Or something that is no address at all, which is said elsewhere. */
static bool is_tcp(const char *address)
{
	return address && *address != '/';
}

static int check_file(int fd, const char *path, struct fault *why)
{
	struct stat about;

	if (fd < 0 || fstat(fd, &about) != 0)
		return fault_set(why, -errno, "--page-token %.200s: %s", path, strerror(errno));
	if (!S_ISREG(about.st_mode))
		return fault_set(why, -EINVAL, "--page-token %.200s: not a file", path);
	if ((about.st_uid != geteuid() && about.st_uid != 0) || (about.st_mode & 077))
		return fault_set(why, -EPERM,
				 "--page-token %.200s: others may read it, or it is another "
				 "user's; accepted: a file of meted's user with mode 0600",
				 path);
	return 0;
}

static int read_token(struct access *access, const char *path, struct fault *why)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r = check_file(fd, path, why);
	ssize_t n;

	if (r < 0)
		return r;
	n = read(fd, access->token, sizeof(access->token));
	if (n < 0)
		return fault_set(why, -errno, "--page-token %.200s: %s", path, strerror(errno));
	while (n && (access->token[n - 1] == '\n' || access->token[n - 1] == ' '))
		n--;
	if (n < ACCESS_TOKEN_LEAST || n > ACCESS_TOKEN_MOST)
		return fault_set(why, -EINVAL,
				 "--page-token %.200s: a token has %d to %d characters", path,
				 ACCESS_TOKEN_LEAST, ACCESS_TOKEN_MOST);
	access->token[n] = '\0';
	for (const char *at = access->token; at < access->token + n; at++)
		if (*at <= ' ' || *at > '~')
			return fault_set(why, -EINVAL,
					 "--page-token %.200s: a token has letters, digits and "
					 "signs of ASCII, and no blanks",
					 path);
	return 0;
}

static bool is_cluster(const struct page_host *host)
{
	return host->believed_ns != 0;
}

static int check_certificate(const struct page_host *host, struct fault *why)
{
	if (!host->certificate != !host->key)
		return fault_set(why, -EINVAL, "--tls-cert and --tls-key need each other");
	if (host->certificate && !is_tcp(host->page) && !is_tcp(host->metrics))
		return fault_set(why, -EINVAL,
				 "--tls-cert needs a TCP address: --page or --metrics ADDRESS");
	return 0;
}

/* How visitors of the page are told apart: one way, and one that suits the address. */
static int check_way(const struct page_host *host, const struct http_address *address,
		     struct fault *why)
{
	if ((host->token != NULL) + host->open + is_cluster(host) > 1)
		return fault_set(why, -EINVAL,
				 "--page-token, --page-open and --page-kubernetes are mutually "
				 "exclusive");
	if (is_cluster(host) && address->name.ss_family == AF_UNIX)
		return fault_set(why, -EINVAL,
				 "--page-kubernetes: '%.120s' is a Unix socket, whose users are "
				 "known by their uid; accepted: a TCP address, as in :9402",
				 host->page);
	if (address->name.ss_family != AF_UNIX && !host->token && !host->open && !is_cluster(host))
		return fault_set(why, -EPERM,
				 "--page %.120s: whoever reaches this address would see all "
				 "tenants; accepted: --page-token FILE with it, a Unix socket "
				 "(unix:/path), --page-open with a loopback address, or on a "
				 "node of Kubernetes --page-kubernetes TIME",
				 host->page);
	if (host->open && !is_loopback(address))
		return fault_set(why, -EPERM,
				 "--page-open: '%.120s' is not a loopback address (127.0.0.1, "
				 "[::1])",
				 host->page);
	return 0;
}

int access_open(struct access *access, const struct page_host *host, struct fault *why)
{
	struct http_address address;
	int r = check_certificate(host, why);

	*access = (struct access){
		.owner = host->owner, .open = host->open, .cluster = is_cluster(host)};
	if (r < 0)
		return r;
	access->tls = host->certificate != NULL;
	if (!host->page)
		return host->token || host->open || access->cluster
			       ? fault_set(why, -EINVAL,
					   "--page-token, --page-open and --page-kubernetes need "
					   "--page ADDRESS")
			       : 0;
	r = http_address_read(host->page, &address, why);
	if (r < 0) {
		fault_within(why, "--page");
		return r;
	}
	r = check_way(host, &address, why);
	if (r < 0)
		return r;
	if (host->token && gethostname(access->machine, sizeof(access->machine) - 1) != 0)
		access->machine[0] = '\0';
	return host->token ? read_token(access, host->token, why) : 0;
}

static bool is_address(const char *text)
{
	struct in6_addr six;
	struct in_addr four;
	char inner[64];
	size_t size = strlen(text);

	if (text[0] != '[')
		return inet_pton(AF_INET, text, &four) == 1;
	if (size < 3 || size >= sizeof(inner) || text[size - 1] != ']')
		return false;
	memcpy(inner, text + 1, size - 2);
	inner[size - 2] = '\0';
	return inet_pton(AF_INET6, inner, &six) == 1;
}

static bool ends_in(const char *text, const char *with)
{
	size_t size = strlen(text), end = strlen(with);

	return size >= end && strcasecmp(text + size - end, with) == 0;
}

bool access_names_us(const char *host, const char *machine)
{
	const char *bracket = strrchr(host, ']'), *colon = strchr(bracket ? bracket : host, ':');
	size_t size = colon ? (size_t)(colon - host) : strlen(host);
	char name[256];

	if (!size || size >= sizeof(name) ||
	    (colon && colon[1 + strspn(colon + 1, "0123456789")] != '\0'))
		return false;
	memcpy(name, host, size);
	name[size] = '\0';
	return is_address(name) || strcasecmp(name, "localhost") == 0 ||
	       ends_in(name, ".localhost") || (*machine && strcasecmp(name, machine) == 0);
}

/* Takes as long whatever was said. */
static bool is_token(const struct access *access, const char *said)
{
	size_t size = strlen(access->token), length = strlen(said);
	unsigned different = size != length;

	for (size_t i = 0; i < size; i++)
		different |= (unsigned char)(access->token[i] ^ said[length ? i % length : 0]);
	return size && !different;
}

const char *access_bearer(const struct http_request *request)
{
	const char *said = http_header(request, "Authorization");

	if (!said || strncasecmp(said, "Bearer ", 7) != 0)
		return "";
	said += 7 + strspn(said + 7, " ");
	for (const char *at = said; *at; at++)
		if (*at <= ' ' || *at > '~')
			return "";
	return said;
}

void access_asker(const struct http_request *request, struct http_asker *ret_asker)
{
	/* What is before the last one was said by whoever asks, or by others before us. */
	const char *said = http_header_last(request, "X-Forwarded-For");
	const char *last = said ? strrchr(said, ',') : NULL;
	struct http_host named;

	*ret_asker = (struct http_asker){.host = request->host};
	if (!said)
		return;
	said = last ? last + 1 : said;
	named = http_host_named(said + strspn(said, " "));
	memcpy(&ret_asker->part, named.byte, sizeof(ret_asker->part));
}

/* HTTP/1.0 has no Host: no browser speaks it. A cluster's nodes have names that we do not know;
 * whoever is led here by another name has no token for it. And a browser compares a name with the
 * certificate. */
static bool is_for_us(const struct access *access, const struct http_request *request)
{
	const char *host = http_header(request, "Host");
	bool any_name = access->cluster || (access->tls && *access->token && !request->local);

	return !host || any_name || access_names_us(host, access->machine);
}

static bool is_of_another_site(const struct http_request *request)
{
	const char *site = http_header(request, "Sec-Fetch-Site");

	return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

unsigned access_check(const struct access *access, const struct http_request *request,
		      struct sight *ret_sight)
{
	if (!is_for_us(access, request))
		return 421;
	if (!ret_sight)
		return 0;
	if (is_of_another_site(request))
		return 403;
	*ret_sight = (struct sight){.all = true};
	if (request->local) {
		ret_sight->all = request->uid == 0 || request->uid == access->owner;
		ret_sight->uid = request->uid;
		return 0;
	}
	if (access->open)
		return 0;
	if (!access->cluster)
		return is_token(access, access_bearer(request)) ? 0 : 401;
	ret_sight->all = false;
	ret_sight->uid = (uid_t)-1;
	return *access_bearer(request) ? 0 : 401;
}
