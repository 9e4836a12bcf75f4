// A blocking HTTP client over a plain socket, for tests of the server's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tokamak::test {

class RawClient {
 public:
  explicit RawClient(uint16_t port);  // of 127.0.0.1
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes);
  // Everything up to `end` or until the other side closes; empty after a minute of silence.
  std::string read_until(std::string_view end);
  std::string read_all() { return read_until({}); }
  void close();
  void close_sending();

 private:
  int socket_ = -1;
};

struct Reply {
  int status = 0;
  std::string head, body;
};
// One request on a connection of its own.
Reply fetch(uint16_t port, std::string_view method, std::string_view target, std::string_view body = {},
            std::string_view headers = {});

}  // namespace tokamak::test
