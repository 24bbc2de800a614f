/* A C server that only receives: the floor for uploads. Answers each request when its Content-Length has come. "scan"
   as second argument: searches the bytes for the multipart delimiter as a parser has to; any other: a file to write
   them to.
   cc -O2 -D_GNU_SOURCE -o build/bench/sink bench/sink.c; sink PORT [scan | FILE] */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char buf[64 * 1024];

static void answer (int fd) {
  static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
  if (write(fd, ok, sizeof ok - 1) < 0) perror("write");
}

static void serve (int fd, int scan, int out) {
  ssize_t n = recv(fd, buf, sizeof buf - 1, 0);
  if (n <= 0) return;
  buf[n] = 0;
  char *length = strcasestr(buf, "content-length:"), *body = strstr(buf, "\r\n\r\n");
  char *boundary = strstr(buf, "boundary=");
  char delimiter[128] = "\r\n--";
  if (!length || !body) return;
  if (boundary) sscanf(boundary + 9, "%100[^\r\n;]", delimiter + 4);
  size_t d = strlen(delimiter), found = 0;
  long long left = atoll(length + 15) - (n - (body + 4 - buf));
  while (left > 0 && (n = recv(fd, buf, sizeof buf, 0)) > 0) {
    left -= n;
    if (out >= 0 && write(out, buf, (size_t)n) != n) perror("write");
    if (scan) found += memmem(buf, (size_t)n, delimiter, d) != NULL;
  }
  answer(fd);
  if (scan && !found) fprintf(stderr, "no delimiter in sight\n");
}

int main (int argc, char **argv) {
  int scan = argc > 2 && strcmp(argv[2], "scan") == 0;
  int out = argc > 2 && !scan ? open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
  if (argc < 2) return fprintf(stderr, "usage: sink PORT [scan]\n"), 2;
  int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 16)) return perror("listen"), 1;
  for (;;) {
    int fd = accept(s, NULL, NULL);
    if (fd < 0) continue;
    serve(fd, scan, out);
    close(fd);
  }
}
