// The devices and the claims of a SqliteDatabase.
#include <algorithm>

#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kInsertDevice =
    "INSERT INTO devices (device_index,name,key,created_ms,state,changed) SELECT ?1,?2,?3,?4,?5,?6"
    " WHERE NOT EXISTS (SELECT 1 FROM devices WHERE name=?2)";
constexpr const char* kSelectDevice =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms,key_change_since_ms,is_whole,key,"
    "previous_key FROM checked_devices WHERE name=?1";
constexpr const char* kSelectDevices =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms,key_change_since_ms,is_whole"
    " FROM checked_devices ORDER BY 1";
constexpr const char* kSelectClaim =
    "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms,is_ended,server_secret IS NOT "
    "NULL,is_whole,"
    "key,server_secret FROM checked_claims WHERE name=?1";
constexpr const char* kSelectClaimOfId =
    "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms,is_ended,server_secret IS NOT "
    "NULL,is_whole,"
    "key,server_secret FROM checked_claims WHERE id=?1";
constexpr const char* kSelectClaims =
    "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms,is_ended,server_secret IS NOT NULL,is_whole"
    " FROM checked_claims ORDER BY id";
constexpr const char* kRotateKey =
    "UPDATE devices SET previous_key=key, previous_until_ms=?3, key=?2, generation=generation+1, changed=?4,"
    " key_change_secret=NULL, key_change_since_ms=0, key_change_window_s=0, key_change_receipt=NULL"
    " WHERE name=?1"
    " RETURNING generation";
constexpr const char* kRequestKeyChange =
    "UPDATE devices SET key_change_secret=coalesce(key_change_secret,?2), key_change_since_ms=?3,"
    " key_change_window_s=?4, changed=?5"
    " WHERE name=?1 AND state<>?6";
constexpr const char* kSelectKeyChange =
    "SELECT key_change_since_ms,key_change_window_s,key_change_secret,key_change_receipt,is_whole"
    " FROM checked_devices WHERE name=?1";
constexpr const char* kChangeKey =
    "UPDATE devices SET previous_key=key, previous_until_ms=?3, key=?2, generation=?4, changed=?5,"
    " key_change_secret=NULL, key_change_since_ms=0, key_change_window_s=0, key_change_receipt=?6"
    " WHERE name=?1 AND generation+1=?4 AND key_change_secret IS NOT NULL";

// NULL, where there is no key, leaves *out as it is.
void read_key(std::span<const uint8_t> blob, DeviceKey* out) {
  std::copy_n(blob.begin(), std::min(blob.size(), out->size()), out->begin());
}

EnrolledDevice device_of(const Use& use) {
  EnrolledDevice row;
  row.index = use.number32(0);
  row.name = use.text(1);
  row.state = static_cast<DeviceState>(use.number(2));
  row.created_ms = use.number(3);
  row.generation = use.number32(4);
  row.previous_until_ms = use.number(5);
  row.key_change_since_ms = use.number(6);
  return row;
}

ClaimRow claim_of(const Use& use) {
  ClaimRow row;
  row.id = use.number32(0);
  row.name = use.text(1);
  row.count_max = use.number32(2);
  row.count_used = use.number32(3);
  row.expires_ms = use.number(4);
  row.device_state = static_cast<DeviceState>(use.number(5));
  row.created_ms = use.number(6);
  row.is_ended = use.number(7) != 0;
  row.is_proven = use.number(8) != 0;
  return row;
}
// The columns of kSelectDevice and kSelectDevices, and of those of claims, that say whether a row is whole. Their keys
// follow.
constexpr int kDeviceIsWhole = 7;
constexpr int kClaimIsWhole = 9;

}  // namespace

Expected<uint64_t> SqliteDatabase::this_change() {
  const Expected<uint64_t> before = change_count();
  GS_TRY_STORE(before);
  return *before + 1;
}

// ---- Devices --------------------------------------------------------------------------------------------------------

Expected<bool> SqliteDatabase::insert_device(const EnrolledDevice& row, uint64_t index, uint64_t now_ms) {
  const Expected<uint64_t> change = this_change();
  GS_TRY_STORE(change);
  Use use(*this, kInsertDevice);
  use.bind(1, index);
  use.bind_text(2, row.name);
  use.bind_blob(3, row.key);
  use.bind(4, now_ms);
  use.bind(5, static_cast<uint64_t>(row.state));
  use.bind(6, *change);
  if (const int code = use.step(); code != SQLITE_DONE) {
    return fail(code, "add the device");
  }
  return sqlite3_changes(connection_) == 1;
}

// How many there are, as no index is left out. SQLite would count them one by one.
Expected<uint64_t> SqliteDatabase::next_index() {
  const Expected<int64_t> index = query_number("SELECT coalesce(max(device_index)+1,0) FROM devices");
  GS_TRY_STORE(index);
  return static_cast<uint64_t>(*index);
}

Expected<std::optional<uint32_t>> SqliteDatabase::add_device(const std::string& name, std::span<const uint8_t, 32> key,
                                                             uint64_t now_ms, DeviceState state) {
  EnrolledDevice row;
  row.name = name;
  row.state = state;
  row.key = DeviceKey(key);
  return change([&]() -> Expected<std::optional<uint32_t>> {
    const Expected<uint64_t> index = next_index();
    GS_TRY_STORE(index);
    const Expected<bool> is_added = insert_device(row, *index, now_ms);
    GS_TRY_STORE(is_added);
    return *is_added ? std::optional(static_cast<uint32_t>(*index)) : std::nullopt;
  });
}

Expected<std::string> SqliteDatabase::add_devices(const std::vector<EnrolledDevice>& rows, uint64_t now_ms) {
  std::string taken;
  const StoreStatus status = change([&] {
    const Expected<uint64_t> first = next_index();
    GS_TRY_STORE(first);
    uint64_t index = *first;
    for (const EnrolledDevice& row : rows) {
      const Expected<bool> is_added = insert_device(row, index++, now_ms);
      GS_TRY_STORE(is_added);
      if (!*is_added) {
        taken = row.name;
        return StoreStatus::kFailed;  // takes the whole transaction back
      }
    }
    return StoreStatus::kOk;
  });
  if (taken.empty()) {
    GS_TRY_STORE(status);
  }
  return taken;
}

Expected<bool> SqliteDatabase::step_to_device(Use& use, const std::string& name, int is_whole) {
  use.bind_text(1, name);
  const int code = use.step();
  if (code == SQLITE_DONE) {
    return false;
  }
  if (code != SQLITE_ROW) {
    return fail(code, "read the device");
  }
  if (use.number(is_whole) == 0) {
    return fail_damaged("devices", name);
  }
  return true;
}

Expected<std::optional<DeviceState>> SqliteDatabase::find_device_state(const std::string& name) {
  Use use(*this, "SELECT state,is_whole FROM checked_devices WHERE name=?1");
  const Expected<bool> is_there = step_to_device(use, name, 1);
  GS_TRY_STORE(is_there);
  return *is_there ? std::optional(static_cast<DeviceState>(use.number(0))) : std::nullopt;
}

Expected<std::optional<DeviceState>> SqliteDatabase::set_device_state(const std::string& name, DeviceState state) {
  return change([&]() -> Expected<std::optional<DeviceState>> {
    const Expected<std::optional<DeviceState>> before = find_device_state(name);
    GS_TRY_STORE(before);
    if (!*before || **before == DeviceState::kRevoked) {
      return before;
    }
    const Expected<uint64_t> change = this_change();
    GS_TRY_STORE(change);
    Use use(*this, "UPDATE devices SET state=?2, changed=?3 WHERE name=?1");
    use.bind_text(1, name);
    use.bind(2, static_cast<uint64_t>(state));
    use.bind(3, *change);
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "change the device's state");
    }
    return before;
  });
}

Expected<bool> SqliteDatabase::revoke_device(const std::string& name) {
  const Expected<std::optional<DeviceState>> before = set_device_state(name, DeviceState::kRevoked);
  GS_TRY_STORE(before);
  return before->has_value();
}

Expected<std::optional<uint32_t>> SqliteDatabase::rotate_key(const std::string& name, std::span<const uint8_t, 32> key,
                                                             uint64_t previous_until_ms) {
  return change([&]() -> Expected<std::optional<uint32_t>> {
    std::optional<uint32_t> generation;
    const Expected<uint64_t> change = this_change();
    GS_TRY_STORE(change);
    Use use(*this, kRotateKey);
    use.bind_text(1, name);
    use.bind_blob(2, key);
    use.bind(3, previous_until_ms);
    use.bind(4, *change);
    int code = use.step();
    if (code == SQLITE_ROW) {
      generation = use.number32(0);
      code = use.step();
    }
    if (code != SQLITE_DONE) {
      return fail(code, "rotate the device's key");
    }
    return generation;
  });
}

Expected<std::optional<EnrolledDevice>> SqliteDatabase::find_device(const std::string& name) {
  Use use(*this, kSelectDevice);
  const Expected<bool> is_there = step_to_device(use, name, kDeviceIsWhole);
  GS_TRY_STORE(is_there);
  if (!*is_there) {
    return std::nullopt;
  }
  EnrolledDevice row = device_of(use);
  // An index that is damaged leads to another device's row.
  if (row.name != name) {
    return fail_damaged("devices", name);
  }
  read_key(use.blob(kDeviceIsWhole + 1), &row.key);
  read_key(use.blob(kDeviceIsWhole + 2), &row.previous_key);
  return row;
}

// change: of kSelectChangedDevices, 0 for the other.
Expected<std::vector<EnrolledDevice>> SqliteDatabase::list_devices(const char* sql, uint64_t change) {
  std::vector<EnrolledDevice> rows;
  Use use(*this, sql);
  if (change != 0) {
    use.bind(1, change);
  }
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    rows.push_back(device_of(use));
    if (use.number(kDeviceIsWhole) == 0) {
      return fail_damaged("devices", rows.back().name);
    }
  }
  if (code != SQLITE_DONE) {
    return fail(code, "read the devices");
  }
  std::sort(rows.begin(), rows.end(),
            [](const EnrolledDevice& a, const EnrolledDevice& b) { return a.index < b.index; });
  return rows;
}

Expected<std::vector<EnrolledDevice>> SqliteDatabase::devices() { return list_devices(kSelectDevices, 0); }

Expected<std::vector<EnrolledDevice>> SqliteDatabase::devices_changed_after(uint64_t change) {
  return change == 0 ? devices() : list_devices(kSelectChangedDevices, change);
}

// ---- Keys that devices draw -----------------------------------------------------------------------------------------

Expected<bool> SqliteDatabase::request_key_change(const std::string& name, const KeyChangeRow& row) {
  return change([&]() -> Expected<bool> {
    const Expected<uint64_t> change = this_change();
    GS_TRY_STORE(change);
    Use use(*this, kRequestKeyChange);
    use.bind_text(1, name);
    use.bind_blob(2, row.server_secret);
    use.bind(3, row.since_ms);
    use.bind(4, row.window_s);
    use.bind(5, *change);
    use.bind(6, static_cast<uint64_t>(DeviceState::kRevoked));
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "ask for a key of the device");
    }
    return sqlite3_changes(connection_) == 1;
  });
}

Expected<std::optional<KeyChangeRow>> SqliteDatabase::find_key_change(const std::string& name) {
  Use use(*this, kSelectKeyChange);
  const Expected<bool> is_there = step_to_device(use, name, 4);
  GS_TRY_STORE(is_there);
  if (!*is_there) {
    return std::nullopt;
  }
  KeyChangeRow row;
  row.since_ms = use.number(0);
  row.window_s = use.number32(1);
  read_key(use.blob(2), &row.server_secret);
  const std::span<const uint8_t> receipt = use.blob(3);
  constexpr size_t kKeySize = std::tuple_size_v<decltype(row.receipt.device_public)>;
  row.has_receipt = receipt.size() == kKeySize + row.receipt.confirm.size();
  if (row.has_receipt) {
    std::ranges::copy(receipt.first(kKeySize), row.receipt.device_public.begin());
    std::ranges::copy(receipt.subspan(kKeySize), row.receipt.confirm.begin());
  }
  return row;
}

Expected<bool> SqliteDatabase::change_key(const std::string& name, uint32_t generation,
                                          std::span<const uint8_t, 32> key, uint64_t previous_until_ms,
                                          const KeyChangeRow::Receipt& receipt) {
  std::array<uint8_t, sizeof(receipt.device_public) + sizeof(receipt.confirm)> bytes = {};
  std::ranges::copy(receipt.confirm, std::ranges::copy(receipt.device_public, bytes.begin()).out);
  return change([&]() -> Expected<bool> {
    const Expected<uint64_t> change = this_change();
    GS_TRY_STORE(change);
    Use use(*this, kChangeKey);
    use.bind_text(1, name);
    use.bind_blob(2, key);
    use.bind(3, previous_until_ms);
    use.bind(4, generation);
    use.bind(5, *change);
    use.bind_blob(6, bytes);
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "change the device's key");
    }
    return sqlite3_changes(connection_) == 1;
  });
}

// ---- Claims --------------------------------------------------------------------------------------------------------

Expected<std::optional<uint32_t>> SqliteDatabase::add_claim(const ClaimRow& row) {
  return change([&]() -> Expected<std::optional<uint32_t>> {
    Use use(*this,
            "INSERT INTO claims (name,key,count_max,expires_ms,device_state,created_ms,server_secret)"
            " VALUES (?1,?2,?3,?4,?5,?6,?7) ON CONFLICT(name) DO NOTHING");
    use.bind_text(1, row.name);
    use.bind_blob(2, row.key);
    use.bind(3, row.count_max);
    use.bind(4, row.expires_ms);
    use.bind(5, static_cast<uint64_t>(row.device_state));
    use.bind(6, row.created_ms);
    if (row.is_proven) {  // else it stays NULL
      use.bind_blob(7, row.server_secret);
    }
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "add the claim");
    }
    return sqlite3_changes(connection_) == 1
               ? std::optional(static_cast<uint32_t>(sqlite3_last_insert_rowid(connection_)))
               : std::nullopt;
  });
}

Expected<std::vector<ClaimRow>> SqliteDatabase::claims() {
  std::vector<ClaimRow> rows;
  Use use(*this, kSelectClaims);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    rows.push_back(claim_of(use));
    if (use.number(kClaimIsWhole) == 0) {
      return fail_damaged("claims", rows.back().name);
    }
  }
  if (code != SQLITE_DONE) {
    return fail(code, "read the claims");
  }
  return rows;
}

Expected<std::optional<ClaimRow>> SqliteDatabase::read_claim(Use& use) {
  const int code = use.step();
  if (code == SQLITE_DONE) {
    return std::nullopt;
  }
  if (code != SQLITE_ROW) {
    return fail(code, "read the claim");
  }
  ClaimRow row = claim_of(use);
  if (use.number(kClaimIsWhole) == 0) {
    return fail_damaged("claims", row.name);
  }
  read_key(use.blob(kClaimIsWhole + 1), &row.key);
  read_key(use.blob(kClaimIsWhole + 2), &row.server_secret);
  return row;
}

Expected<std::optional<ClaimRow>> SqliteDatabase::find_claim(const std::string& name) {
  Use use(*this, kSelectClaim);
  use.bind_text(1, name);
  Expected<std::optional<ClaimRow>> found = read_claim(use);
  // An index that is damaged leads to another claim's row.
  if (found.is_ok() && *found && (*found)->name != name) {
    return fail_damaged("claims", name);
  }
  return found;
}

Expected<std::optional<ClaimRow>> SqliteDatabase::find_claim(uint32_t id) {
  Use use(*this, kSelectClaimOfId);
  use.bind(1, id);
  return read_claim(use);
}

Expected<bool> SqliteDatabase::end_claim(const std::string& name, uint64_t now_ms) {
  return change([&]() -> Expected<bool> {
    Use use(*this, "UPDATE claims SET is_ended=1, expires_ms=min(expires_ms,?2) WHERE name=?1");
    use.bind_text(1, name);
    use.bind(2, now_ms);
    if (const int code = use.step(); code != SQLITE_DONE) {
      return fail(code, "end the claim");
    }
    return sqlite3_changes(connection_) == 1;
  });
}

Expected<SqliteDatabase::ClaimRuling> SqliteDatabase::judge_claim(uint32_t id, const std::string& name,
                                                                  std::span<const uint8_t, 32> key, uint64_t now_ms) {
  {
    Use use(*this, "SELECT key,claim,is_whole FROM checked_devices WHERE name=?1");
    use.bind_text(1, name);
    const int code = use.step();
    if (code == SQLITE_ROW) {
      if (use.number(2) == 0) {
        return fail_damaged("devices", name);
      }
      const auto known = use.blob(0);
      const bool is_same = use.number32(1) == id && std::equal(known.begin(), known.end(), key.begin(), key.end());
      return ClaimRuling{is_same ? ClaimOutcome::kRepeated : ClaimOutcome::kNameTaken};
    }
    if (code != SQLITE_DONE) {
      return fail(code, "read the device");
    }
  }
  Use use(*this,
          "SELECT device_state,is_whole,name FROM checked_claims"
          " WHERE id=?1 AND is_ended=0 AND expires_ms>?2 AND count_used<count_max");
  use.bind(1, id);
  use.bind(2, now_ms);
  const int code = use.step();
  if (code == SQLITE_DONE) {
    return ClaimRuling{ClaimOutcome::kEnded};
  }
  if (code != SQLITE_ROW) {
    return fail(code, "read the claim");
  }
  if (use.number(1) == 0) {
    return fail_damaged("claims", use.text(2));
  }
  return ClaimRuling{ClaimOutcome::kGranted, static_cast<DeviceState>(use.number(0))};
}

StoreStatus SqliteDatabase::insert_claimed(uint32_t id, const EnrolledDevice& row, uint64_t now_ms) {
  const Expected<uint64_t> index = next_index();
  GS_TRY_STORE(index);
  const Expected<bool> is_added = insert_device(row, *index, now_ms);
  GS_TRY_STORE(is_added);
  GS_ASSERT(*is_added);  // judge_claim() has found no device of this name in the same transaction
  Use note(*this, "UPDATE devices SET claim=?1 WHERE device_index=?2");
  note.bind(1, id);
  note.bind(2, *index);
  int code = note.step();
  if (code != SQLITE_DONE) {
    return fail(code, "note the device's claim");
  }
  Use use(*this, "UPDATE claims SET count_used=count_used+1 WHERE id=?1");
  use.bind(1, id);
  code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "count the claim");
}

Expected<ClaimOutcome> SqliteDatabase::claim_device(uint32_t id, const std::string& name,
                                                    std::span<const uint8_t, 32> key, uint64_t now_ms) {
  // First without a transaction: what is refused costs the disk nothing.
  const Expected<ClaimRuling> first = judge_claim(id, name, key, now_ms);
  GS_TRY_STORE(first);
  if (first->outcome != ClaimOutcome::kGranted) {
    return first->outcome;
  }
  return change([&]() -> Expected<ClaimOutcome> {
    const Expected<ClaimRuling> ruling = judge_claim(id, name, key, now_ms);
    GS_TRY_STORE(ruling);
    if (ruling->outcome == ClaimOutcome::kGranted) {
      EnrolledDevice row;
      row.name = name;
      row.key = DeviceKey(key);
      row.state = ruling->state;
      GS_TRY_STORE(insert_claimed(id, row, now_ms));
    }
    return ruling->outcome;
  });
}

// ---- What ends by itself --------------------------------------------------------------------------------------------

Expected<uint64_t> SqliteDatabase::next_expiry() {
  const Expected<int64_t> keys = query_number(kSelectNextKeyEnd);
  GS_TRY_STORE(keys);
  const Expected<int64_t> claims = query_number("SELECT coalesce(min(expires_ms),-1) FROM claims WHERE is_ended=0");
  GS_TRY_STORE(claims);
  const Expected<int64_t> changes = query_number(kSelectFirstKeyChange);
  GS_TRY_STORE(changes);
  const uint64_t change_end = *changes < 0 ? UINT64_MAX : static_cast<uint64_t>(*changes) + kKeyChangeAgeMaxMs;
  return std::min({static_cast<uint64_t>(*keys), static_cast<uint64_t>(*claims), change_end});  // -1 is UINT64_MAX
}

StoreStatus SqliteDatabase::end_all_until(uint64_t now_ms) {
  const Expected<uint64_t> change = this_change();
  GS_TRY_STORE(change);
  Use keys(*this, kEndKeys);
  keys.bind(1, now_ms);
  keys.bind(2, *change);
  int code = keys.step();
  if (code != SQLITE_DONE) {
    return fail(code, "drop previous keys");
  }
  Use changes(*this, kEndKeyChanges);
  changes.bind(1, now_ms - std::min(now_ms, kKeyChangeAgeMaxMs));
  changes.bind(2, *change);
  code = changes.step();
  if (code != SQLITE_DONE) {
    return fail(code, "end requests of keys");
  }
  Use claims(*this, "UPDATE claims SET is_ended=1 WHERE is_ended=0 AND expires_ms<=?1");
  claims.bind(1, now_ms);
  code = claims.step();
  return code == SQLITE_DONE ? note_time(&now_ms) : fail(code, "end claims");
}

Expected<uint64_t> SqliteDatabase::end_expired(uint64_t now_ms) {
  const Expected<uint64_t> next_ms = next_expiry();
  GS_TRY_STORE(next_ms);
  if (*next_ms > now_ms) {
    return next_ms;
  }
  GS_TRY_STORE(change([&] { return end_all_until(now_ms); }));
  return next_expiry();
}

// ---- Wall time, which decides what of this is over ----

Expected<uint64_t> SqliteDatabase::latest_time() { return read_meta("latest_time_ms"); }

StoreStatus SqliteDatabase::note_time(uint64_t* now_ms) {
  const Expected<uint64_t> latest_ms = latest_time();
  GS_TRY_STORE(latest_ms);
  if (*latest_ms >= *now_ms) {
    *now_ms = *latest_ms;
    return StoreStatus::kOk;
  }
  Use use(*this,
          "INSERT INTO meta (key,value) VALUES ('latest_time_ms',?1)"
          " ON CONFLICT(key) DO UPDATE SET value=max(value,?1)");
  use.bind(1, *now_ms);
  const int code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "note the time");
}

}  // namespace gradstream
