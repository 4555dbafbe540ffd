#include "server/watch/json_object.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace gradstream {

JsonObject& JsonObject::add(const char* key, const std::string& text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  return std::all_of(text.begin(), text.end(), is_plain)
             ? word(key, text.c_str())
             : raw(key, nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace gradstream
