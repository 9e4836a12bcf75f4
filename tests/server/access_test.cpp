#include "server/access.h"

#include <gtest/gtest.h>

namespace tokamak::server {
namespace {

HttpRequest request(std::string host, std::string origin = {}) {
  HttpRequest out{.method = "POST", .path = "/v1/models"};
  out.headers["host"] = std::move(host);
  if (!origin.empty()) out.headers["origin"] = std::move(origin);
  return out;
}

TEST(AccessTest, KeysComeInEitherHeaderAndChangeWhileRunning) {
  Access access({"alpha", "beta"}, "", "127.0.0.1");
  HttpRequest r = request("localhost");
  EXPECT_FALSE(access.has_key(r));
  for (const auto& [name, value] :
       {std::pair{"authorization", "Bearer alpha"}, {"authorization", "bearer alpha"}, {"x-api-key", "beta"}}) {
    HttpRequest with = r;
    with.headers[name] = value;
    EXPECT_TRUE(access.has_key(with)) << name;
  }
  for (const char* wrong : {"Bearer alph", "Bearer alphaa", "Bearer ", "alpha", "Bearer gamma"}) {
    r.headers["authorization"] = wrong;
    EXPECT_FALSE(access.has_key(r)) << wrong;
  }
  r.headers["authorization"] = "Bearer gamma";
  access.set_keys({"gamma"});
  EXPECT_TRUE(access.has_key(r));
}

TEST(AccessTest, PagesOfOtherSitesMayNotAskWithoutAKey) {
  const Access access({}, "", "127.0.0.1");
  EXPECT_EQ(access.why_foreign(request("127.0.0.1:8080")), "");
  EXPECT_EQ(access.why_foreign(request("localhost:8080", "http://localhost:8080")), "");
  EXPECT_EQ(access.why_foreign(request("[::1]:8080")), "");
  EXPECT_NE(access.why_foreign(request("localhost:8080", "https://evil.example")), "");
  EXPECT_NE(access.why_foreign(request("localhost:8080", "http://localhost:9")), "");
  EXPECT_NE(access.why_foreign(request("localhost:8080", "null")), "");
  // Names that point at this machine.
  EXPECT_NE(access.why_foreign(request("rebound.example:8080")), "");
  EXPECT_NE(access.why_foreign(request("127.0.0.1.example:8080", "http://127.0.0.1.example:8080")), "");
}

TEST(AccessTest, ForeignPagesAreLetInByKeyOriginOrAddress) {
  const HttpRequest foreign = request("rebound.example", "https://app.example");
  EXPECT_EQ(Access({"k"}, "", "127.0.0.1").why_foreign(foreign), "");
  EXPECT_EQ(Access({}, "https://app.example", "0.0.0.0").why_foreign(foreign), "");
  EXPECT_EQ(Access({}, "*", "0.0.0.0").why_foreign(foreign), "");
  EXPECT_NE(Access({}, "https://other.example", "0.0.0.0").why_foreign(foreign), "");
}

}  // namespace
}  // namespace tokamak::server
