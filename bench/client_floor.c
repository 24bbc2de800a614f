/* What the system asks of any client: one request after the other over one connection, sent and received, nothing parsed
   but where an answer ends.
     client_floor PORT REQUESTS ANSWER-BYTES     prints as the programs of client.lua do: requests, seconds of CPU, 0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static int connect_to (int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a) != 0) return -1;
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

/* One answer: its head, and `body` bytes. */
static int answered (int s, long body) {
  char in[65536];
  size_t n = 0;
  for (;;) {
    ssize_t k = recv(s, in + n, sizeof in - 1 - n, 0);
    if (k <= 0) return 0;
    n += (size_t)k;
    in[n] = 0;
    const char *end = strstr(in, "\r\n\r\n");
    if (end && n - (size_t)(end + 4 - in) >= (size_t)body) return 1;
  }
}

int main (int argc, char **argv) {
  static const char request[] = "GET /hello.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  if (argc < 4) return 2;
  long requests = atol(argv[2]), body = atol(argv[3]);
  int s = connect_to(atoi(argv[1]));
  clock_t begun = clock();
  for (long i = 0; i < requests; i++) {
    if (send(s, request, sizeof request - 1, 0) < 0 || !answered(s, body)) return 1;
  }
  printf("%ld %f 0\n", requests, (double)(clock() - begun) / CLOCKS_PER_SEC);
  return 0;
}
