/* The least a server can do: one epoll loop that answers every readable event with the same bytes, parsing nothing.
   The ceiling for bench/server.sh.
       cc -O2 -o build/bench/responder bench/responder.c && build/bench/responder PORT [DELAY_MS]
   With a delay, each answer waits in a queue for its time, as a handler that sleeps does. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 512, QUEUE = 1 << 16 };

static const char answer[] =
    "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 20:00:00 GMT\r\nContent-Length: 11\r\n\r\nhello world";

static struct { int fd; long long due; } queue[QUEUE]; /* in order, since all wait equally long */
static unsigned head, tail;

static long long now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int listen_on (int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1024)) {
    perror("responder");
    exit(1);
  }
  return fd;
}

static void watch (int ep, int fd, unsigned events) {
  struct epoll_event ev = {.events = events, .data.fd = fd};
  epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

static void accept_all (int ep, int listener) {
  int fd, one = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
  }
}

static void respond (int fd) { (void)!write(fd, answer, sizeof answer - 1); }

static void serve (int fd, long long delay) {
  char buf[4096];
  ssize_t n = read(fd, buf, sizeof buf);
  if (n == 0) close(fd);
  if (n <= 0) return;
  if (delay == 0) {
    respond(fd);
    return;
  }
  queue[tail % QUEUE].fd = fd;
  queue[tail++ % QUEUE].due = now() + delay;
}

/* Answers what is due; milliseconds until the next one, or -1. */
static int expire (void) {
  long long t = now();
  while (head != tail && queue[head % QUEUE].due <= t) respond(queue[head++ % QUEUE].fd);
  return head == tail ? -1 : (int)((queue[head % QUEUE].due - t + 999) / 1000);
}

int main (int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: responder PORT [DELAY_MS]\n");
    return 2;
  }
  int listener = listen_on(atoi(argv[1])), ep = epoll_create1(0);
  long long delay = argc > 2 ? atoll(argv[2]) * 1000 : 0;
  struct epoll_event ev[EVENTS];
  watch(ep, listener, EPOLLIN);
  for (;;) {
    int n = epoll_wait(ep, ev, EVENTS, delay ? expire() : -1);
    for (int i = 0; i < n; i++) {
      if (ev[i].data.fd == listener) accept_all(ep, listener);
      else serve(ev[i].data.fd, delay);
    }
  }
}
