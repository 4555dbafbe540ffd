#include "server/postgresql/engine_address.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include <libpq-fe.h>

namespace gradstream {
namespace {

size_t item_count(const std::string& list) {
  return 1 + static_cast<size_t>(std::count(list.begin(), list.end(), ','));
}

// The list from this item on, and then the items before it. A list of one item holds for all servers.
std::string turned(const std::string& list, size_t first) {
  size_t begin = 0;
  for (size_t i = 0; i < first % item_count(list); ++i) {
    begin = list.find(',', begin) + 1;
  }
  return begin == 0 ? list : list.substr(begin) + "," + list.substr(0, begin - 1);
}

bool begins_with(const std::string& text, std::string_view beginning) { return text.rfind(beginning, 0) == 0; }

}  // namespace

ServerLists servers_of(const std::string& address, size_t first) {
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> all(PQconninfoParse(address.c_str(), nullptr),
                                                                         &PQconninfoFree);
  ServerLists lists;
  for (const PQconninfoOption* one = all.get(); one != nullptr && one->keyword != nullptr; ++one) {
    const std::string_view keyword = one->keyword;
    const std::string value = one->val == nullptr ? "" : one->val;
    if (keyword == "host" || keyword == "hostaddr") {
      (keyword == "host" ? lists.host : lists.host_address) = turned(value, first);
      lists.count = std::max(lists.count, item_count(value));
    } else if (keyword == "port") {
      lists.port = turned(value, first);
    }
  }
  return lists;
}

Objection check_secrecy(bool has_tls, const std::string& primary, const std::string& address) {
  if (has_tls || primary.empty() || begins_with(primary, "127.") || begins_with(primary, "::1:")) {
    return {};
  }
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> all(PQconninfoParse(address.c_str(), nullptr),
                                                                         &PQconninfoFree);
  for (const PQconninfoOption* one = all.get(); one != nullptr && one->keyword != nullptr; ++one) {
    if (std::string_view(one->keyword) == "sslmode" && one->val != nullptr && std::string_view(one->val) == "disable") {
      return {};
    }
  }
  return "the engine's server " + primary +
         " is reached without TLS, and the keys of the devices would pass the network in the clear. Say "
         "sslmode=verify-full in engine.address, or sslmode=disable where that network is trusted.";
}

}  // namespace gradstream
