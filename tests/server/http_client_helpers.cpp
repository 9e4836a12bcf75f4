#include "http_client_helpers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tokamak::test {

RawClient::RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

RawClient::~RawClient() { close(); }

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

std::string RawClient::read_until(std::string_view end) {
  std::string out;
  for (char c; (end.empty() || !out.ends_with(end)) && ::recv(socket_, &c, 1, 0) == 1;) out += c;
  return out;
}

void RawClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void RawClient::close_sending() { ::shutdown(socket_, SHUT_WR); }

Reply fetch(uint16_t port, std::string_view method, std::string_view target, std::string_view body,
            std::string_view headers) {
  RawClient client(port);
  std::string request =
      std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n";
  if (!body.empty()) request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  client.send(request + std::string(headers) + "\r\n" + std::string(body));
  const std::string all = client.read_all();
  Reply reply;
  const size_t split = all.find("\r\n\r\n");
  if (split == all.npos || !all.starts_with("HTTP/1.1 ")) return reply;
  reply.status = std::stoi(all.substr(9, 3));
  reply.head = all.substr(0, split);
  reply.body = all.substr(split + 4);
  return reply;
}

}  // namespace tokamak::test
