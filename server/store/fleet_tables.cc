// The devices and the claims of a SqliteDatabase.
#include <algorithm>

#include "server/store/statement.h"

namespace gradstream {

namespace {

constexpr const char* kInsertDevice =
    "INSERT INTO devices (device_index,name,key,created_ms,state) SELECT ?1,?2,?3,?4,?5"
    " WHERE NOT EXISTS (SELECT 1 FROM devices WHERE name=?2)";
constexpr const char* kSelectDevice =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms,is_whole,key,previous_key"
    " FROM checked_devices WHERE name=?1";
constexpr const char* kSelectDevices =
    "SELECT device_index,name,state,created_ms,generation,previous_until_ms,is_whole FROM checked_devices ORDER BY 1";
constexpr const char* kSelectClaim =
    "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms,is_ended,is_whole,key FROM checked_claims"
    " WHERE name=?1";
constexpr const char* kSelectClaims =
    "SELECT id,name,count_max,count_used,expires_ms,device_state,created_ms,is_ended,is_whole FROM checked_claims"
    " ORDER BY id";
constexpr const char* kRotateKey =
    "UPDATE devices SET previous_key=key, previous_until_ms=?3, key=?2, generation=generation+1 WHERE name=?1"
    " RETURNING generation";

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
  return row;
}
// The columns of kSelectDevice and kSelectDevices, and of kSelectClaim and kSelectClaims, that say whether a row is
// whole. Their keys follow.
constexpr int kDeviceIsWhole = 6;
constexpr int kClaimIsWhole = 8;

}  // namespace

// ---- Devices --------------------------------------------------------------------------------------------------------

StoreStatus SqliteDatabase::insert_device(const EnrolledDevice& row, uint64_t index, uint64_t now_ms, bool* added) {
  Use use(*this, kInsertDevice);
  use.bind(1, index);
  use.bind_text(2, row.name);
  use.bind_blob(3, row.key);
  use.bind(4, now_ms);
  use.bind(5, static_cast<uint64_t>(row.state));
  const int code = use.step();
  *added = code == SQLITE_DONE && sqlite3_changes(connection_) == 1;
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "add the device");
}

StoreStatus SqliteDatabase::add_device(const std::string& name, std::span<const uint8_t, 32> key, uint64_t now_ms,
                                       std::optional<uint32_t>* index, DeviceState state) {
  index->reset();
  bool added = false;
  int64_t count = 0;
  EnrolledDevice row;
  row.name = name;
  row.state = state;
  row.key = DeviceKey(key);
  const StoreStatus status = change([&] {
    GS_TRY_STORE(query_number("SELECT count(*) FROM devices", &count));
    return insert_device(row, static_cast<uint64_t>(count), now_ms, &added);
  });
  if (status == StoreStatus::kOk && added) {
    *index = static_cast<uint32_t>(count);
  }
  return status;
}

StoreStatus SqliteDatabase::add_devices(const std::vector<EnrolledDevice>& rows, uint64_t now_ms, std::string* taken) {
  taken->clear();
  const StoreStatus status = change([&] {
    int64_t count = 0;
    GS_TRY_STORE(query_number("SELECT count(*) FROM devices", &count));
    for (const EnrolledDevice& row : rows) {
      bool added = false;
      GS_TRY_STORE(insert_device(row, static_cast<uint64_t>(count++), now_ms, &added));
      if (!added) {
        *taken = row.name;
        return StoreStatus::kFailed;  // takes the whole transaction back
      }
    }
    return StoreStatus::kOk;
  });
  return taken->empty() ? status : StoreStatus::kOk;
}

StoreStatus SqliteDatabase::find_device_state(const std::string& name, std::optional<DeviceState>* out) {
  Use use(*this, "SELECT state,is_whole FROM checked_devices WHERE name=?1");
  use.bind_text(1, name);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    if (use.number(1) == 0) {
      return fail_damaged("devices", name);
    }
    *out = static_cast<DeviceState>(use.number(0));
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the device");
}

StoreStatus SqliteDatabase::set_device_state(const std::string& name, DeviceState state,
                                             std::optional<DeviceState>* before) {
  before->reset();
  return change([&] {
    GS_TRY_STORE(find_device_state(name, before));
    if (!*before || *before == DeviceState::kRevoked) {
      return StoreStatus::kOk;
    }
    Use use(*this, "UPDATE devices SET state=?2 WHERE name=?1");
    use.bind_text(1, name);
    use.bind(2, static_cast<uint64_t>(state));
    const int code = use.step();
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "change the device's state");
  });
}

StoreStatus SqliteDatabase::revoke_device(const std::string& name, bool* found) {
  std::optional<DeviceState> before;
  const StoreStatus status = set_device_state(name, DeviceState::kRevoked, &before);
  *found = before.has_value();
  return status;
}

StoreStatus SqliteDatabase::rotate_key(const std::string& name, std::span<const uint8_t, 32> key,
                                       uint64_t previous_until_ms, std::optional<uint32_t>* generation) {
  generation->reset();
  return change([&] {
    Use use(*this, kRotateKey);
    use.bind_text(1, name);
    use.bind_blob(2, key);
    use.bind(3, previous_until_ms);
    int code = use.step();
    if (code == SQLITE_ROW) {
      *generation = use.number32(0);
      code = use.step();
    }
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "rotate the device's key");
  });
}

StoreStatus SqliteDatabase::find_device(const std::string& name, std::optional<EnrolledDevice>* out) {
  out->reset();
  Use use(*this, kSelectDevice);
  use.bind_text(1, name);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    const EnrolledDevice row = device_of(use);
    // The name also: an index that is damaged leads to another device's row.
    if (use.number(kDeviceIsWhole) == 0 || row.name != name) {
      return fail_damaged("devices", name);
    }
    *out = row;
    read_key(use.blob(kDeviceIsWhole + 1), &(*out)->key);
    read_key(use.blob(kDeviceIsWhole + 2), &(*out)->previous_key);
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the device");
}

StoreStatus SqliteDatabase::devices(std::vector<EnrolledDevice>* out) {
  out->clear();
  Use use(*this, kSelectDevices);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    out->push_back(device_of(use));
    if (use.number(kDeviceIsWhole) == 0) {
      return fail_damaged("devices", out->back().name);
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the devices");
}

// ---- Claims --------------------------------------------------------------------------------------------------------

StoreStatus SqliteDatabase::add_claim(ClaimRow* row) {
  row->id = 0;
  return change([&] {
    Use use(*this,
            "INSERT INTO claims (name,key,count_max,expires_ms,device_state,created_ms) VALUES (?1,?2,?3,?4,?5,?6)"
            " ON CONFLICT(name) DO NOTHING");
    use.bind_text(1, row->name);
    use.bind_blob(2, row->key);
    use.bind(3, row->count_max);
    use.bind(4, row->expires_ms);
    use.bind(5, static_cast<uint64_t>(row->device_state));
    use.bind(6, row->created_ms);
    const int code = use.step();
    row->id = sqlite3_changes(connection_) == 1 ? static_cast<uint32_t>(sqlite3_last_insert_rowid(connection_)) : 0;
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "add the claim");
  });
}

StoreStatus SqliteDatabase::claims(std::vector<ClaimRow>* out) {
  out->clear();
  Use use(*this, kSelectClaims);
  int code = use.step();
  for (; code == SQLITE_ROW; code = use.step()) {
    out->push_back(claim_of(use));
    if (use.number(kClaimIsWhole) == 0) {
      return fail_damaged("claims", out->back().name);
    }
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the claims");
}

StoreStatus SqliteDatabase::find_claim(const std::string& name, std::optional<ClaimRow>* out) {
  out->reset();
  Use use(*this, kSelectClaim);
  use.bind_text(1, name);
  const int code = use.step();
  if (code == SQLITE_ROW) {
    const ClaimRow row = claim_of(use);
    if (use.number(kClaimIsWhole) == 0 || row.name != name) {
      return fail_damaged("claims", name);
    }
    *out = row;
    read_key(use.blob(kClaimIsWhole + 1), &(*out)->key);
    return StoreStatus::kOk;
  }
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the claim");
}

StoreStatus SqliteDatabase::end_claim(const std::string& name, uint64_t now_ms, bool* found) {
  return change([&] {
    Use use(*this, "UPDATE claims SET is_ended=1, expires_ms=min(expires_ms,?2) WHERE name=?1");
    use.bind_text(1, name);
    use.bind(2, now_ms);
    const int code = use.step();
    *found = sqlite3_changes(connection_) == 1;
    return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "end the claim");
  });
}

// state: of the device, where it is granted.
StoreStatus SqliteDatabase::judge_claim(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key,
                                        uint64_t now_ms, ClaimOutcome* out, DeviceState* state) {
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
      *out = is_same ? ClaimOutcome::kRepeated : ClaimOutcome::kNameTaken;
      return StoreStatus::kOk;
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
  if (code == SQLITE_ROW && use.number(1) == 0) {
    return fail_damaged("claims", use.text(2));
  }
  if (code == SQLITE_ROW) {
    *state = static_cast<DeviceState>(use.number(0));
  }
  *out = code == SQLITE_ROW ? ClaimOutcome::kGranted : ClaimOutcome::kEnded;
  return code == SQLITE_ROW || code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "read the claim");
}

StoreStatus SqliteDatabase::insert_claimed(uint32_t id, const EnrolledDevice& row, uint64_t now_ms) {
  int64_t count = 0;
  bool added = false;
  GS_TRY_STORE(query_number("SELECT count(*) FROM devices", &count));
  GS_TRY_STORE(insert_device(row, static_cast<uint64_t>(count), now_ms, &added));
  Use note(*this, "UPDATE devices SET claim=?1 WHERE device_index=?2");
  note.bind(1, id);
  note.bind(2, static_cast<uint64_t>(count));
  int code = note.step();
  if (code != SQLITE_DONE) {
    return fail(code, "note the device's claim");
  }
  Use use(*this, "UPDATE claims SET count_used=count_used+1 WHERE id=?1");
  use.bind(1, id);
  code = use.step();
  return code == SQLITE_DONE ? StoreStatus::kOk : fail(code, "count the claim");
}

StoreStatus SqliteDatabase::claim_device(uint32_t id, const std::string& name, std::span<const uint8_t, 32> key,
                                         uint64_t now_ms, ClaimOutcome* out) {
  EnrolledDevice row;
  row.name = name;
  row.key = DeviceKey(key);
  // First without a transaction: what is refused costs the disk nothing.
  GS_TRY_STORE(judge_claim(id, name, key, now_ms, out, &row.state));
  if (*out != ClaimOutcome::kGranted) {
    return StoreStatus::kOk;
  }
  return change([&] {
    GS_TRY_STORE(judge_claim(id, name, key, now_ms, out, &row.state));
    return *out == ClaimOutcome::kGranted ? insert_claimed(id, row, now_ms) : StoreStatus::kOk;
  });
}

// ---- What ends by itself --------------------------------------------------------------------------------------------

StoreStatus SqliteDatabase::next_expiry(uint64_t* out) {
  int64_t next = 0;
  const StoreStatus status = query_number(
      "SELECT coalesce(min(until_ms),-1) FROM (SELECT previous_until_ms AS until_ms FROM devices"
      " WHERE previous_until_ms<>0 UNION ALL SELECT expires_ms FROM claims WHERE is_ended=0)",
      &next);
  *out = static_cast<uint64_t>(next);  // -1 is UINT64_MAX
  return status;
}

StoreStatus SqliteDatabase::end_all_until(uint64_t now_ms) {
  Use keys(*this,
           "UPDATE devices SET previous_key=NULL, previous_until_ms=0"
           " WHERE previous_until_ms<>0 AND previous_until_ms<=?1");
  keys.bind(1, now_ms);
  int code = keys.step();
  if (code != SQLITE_DONE) {
    return fail(code, "drop previous keys");
  }
  Use claims(*this, "UPDATE claims SET is_ended=1 WHERE is_ended=0 AND expires_ms<=?1");
  claims.bind(1, now_ms);
  code = claims.step();
  return code == SQLITE_DONE ? note_time(&now_ms) : fail(code, "end claims");
}

StoreStatus SqliteDatabase::end_expired(uint64_t now_ms, uint64_t* next_ms) {
  StoreStatus status = next_expiry(next_ms);
  if (status == StoreStatus::kOk && *next_ms <= now_ms) {
    status = change([&] { return end_all_until(now_ms); });
  }
  return status == StoreStatus::kOk ? next_expiry(next_ms) : status;
}

}  // namespace gradstream
