/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "tests/test.h"

static struct http_address address;
static struct fault why;

TEST(addresses_are_read_as_people_write_them)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)&address.name;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address.name;
	const struct sockaddr_un *path = (const struct sockaddr_un *)&address.name;

	expect_eq(http_address_read("127.0.0.1:9400", &address, &why), 0);
	expect_eq(four->sin_family, AF_INET);
	expect_eq(ntohs(four->sin_port), 9400);
	expect_eq(ntohl(four->sin_addr.s_addr), INADDR_LOOPBACK);
	expect(!address.any);
	expect_eq(http_address_read("[::1]:65535", &address, &why), 0);
	expect_eq(six->sin6_family, AF_INET6);
	expect_eq(ntohs(six->sin6_port), 65535);
	expect(IN6_IS_ADDR_LOOPBACK(&six->sin6_addr));
	expect_eq(http_address_read(":80", &address, &why), 0);
	expect(address.any && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr));
	expect_eq(http_address_read("/run/x:1", &address, &why), 0);
	expect_eq(path->sun_family, AF_UNIX);
	expect_str(path->sun_path, "/run/x:1");
}

TEST(text_that_is_no_address_is_refused_with_a_sentence)
{
	static const char *const bad[] = {"",
					  "x",
					  "1.2.3.4",
					  "1.2.3.4:",
					  "1.2.3:80",
					  "localhost:80",
					  "1.2.3.4:-1",
					  ":+1",
					  ": 1",
					  ":65536",
					  ":99999999999999999999",
					  "1.2.3.4:80x",
					  "::1:80",
					  "[::1]80",
					  "[::1:80",
					  "[:80",
					  "]:80",
					  "[]:80",
					  "[x]:80",
					  "1.2.3.4:0x50",
					  "[::1] :80"};
	char long_host[200], long_path[200];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		why.text[0] = 0;
		expect_eq(http_address_read(bad[i], &address, &why), -EINVAL);
		expect(strlen(why.text) > 20);
	}
	memset(long_host, '1', sizeof(long_host));
	strcpy(long_host + sizeof(long_host) - 4, ":80");
	expect_eq(http_address_read(long_host, &address, &why), -EINVAL);
	memset(long_path, '/', sizeof(long_path));
	long_path[108] = 0;
	expect_eq(http_address_read(long_path, &address, &why), -EINVAL);
	long_path[107] = 0;
	expect_eq(http_address_read(long_path, &address, &why), 0);
}
