// SQLite with values kept apart from statements. A statement is a text that was known when this program was
// compiled, and every value is bound to its '?', so no name can be read as SQL.
//
//   Database db("board.db");
//   Transaction t(db);
//   db.run("INSERT INTO users(name) VALUES(?)", name);
//   t.commit();  // without it, nothing happened
//   for (auto rows = db.query("SELECT id, name FROM users"); rows.next();)
//     use(rows.integer(0), rows.text(1));
//
// A connection serves one thread at a time; others wait. Errors are exceptions.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tinymlperf::board {

class DatabaseError : public std::runtime_error {
 public:
  explicit DatabaseError(const std::string& what) : std::runtime_error("database: " + what) {}
};

// A statement that no run of the program can change.
class Sql {
 public:
  template <size_t N>
  consteval Sql(const char (&text)[N]) : text_(text, N - 1) {}
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Bytes that are not text.
struct Blob {
  std::string_view bytes;
};

class Database;

// A prepared statement with its values, which gives rows one after another.
class Rows {
 public:
  // False after the last one.
  bool next();
  int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double number(int column) const { return sqlite3_column_double(statement_.get(), column); }
  bool is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  // Text or blob.
  std::string text(int column) const {
    const void* bytes = sqlite3_column_blob(statement_.get(), column);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
    return bytes ? std::string(static_cast<const char*>(bytes), size) : std::string();
  }

 private:
  friend class Database;
  Rows(Database& db, std::string_view sql);
  void bind(int at, int64_t value) { check(sqlite3_bind_int64(statement_.get(), at, value)); }
  void bind(int at, int value) { bind(at, int64_t{value}); }
  void bind(int at, bool value) { bind(at, int64_t{value}); }
  void bind(int at, double value) { check(sqlite3_bind_double(statement_.get(), at, value)); }
  void bind(int at, std::nullptr_t) { check(sqlite3_bind_null(statement_.get(), at)); }
  void bind(int at, std::string_view text) {
    check(sqlite3_bind_text64(statement_.get(), at, text.data() ? text.data() : "", text.size(), copied(),
                              SQLITE_UTF8));
  }
  void bind(int at, const std::string& text) { bind(at, std::string_view(text)); }
  void bind(int at, const char* text) { bind(at, std::string_view(text)); }
  void bind(int at, Blob blob) {
    check(sqlite3_bind_blob64(statement_.get(), at, blob.bytes.data() ? blob.bytes.data() : "",
                              blob.bytes.size(), copied()));
  }
  template <class T>
  void bind(int at, const std::optional<T>& value) {
    value ? bind(at, *value) : bind(at, nullptr);
  }
  void check(int status) const;
  // The value of the macro SQLITE_TRANSIENT, without its cast.
  static sqlite3_destructor_type copied() {
    return reinterpret_cast<sqlite3_destructor_type>(static_cast<intptr_t>(-1));
  }

  Database* db_;
  std::unique_lock<std::recursive_mutex> lock_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
};

class Database {
 public:
  // The file is created if it does not exist.
  explicit Database(const std::filesystem::path& path) : handle_(nullptr, &sqlite3_close_v2) {
    sqlite3* raw = nullptr;
    const int status = sqlite3_open_v2(
        path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
    handle_.reset(raw);
    if (status != SQLITE_OK)
      throw DatabaseError("cannot open " + path.string() + ": " + sqlite3_errstr(status));
    sqlite3_extended_result_codes(raw, 1);
    sqlite3_busy_timeout(raw, kPatienceMilliseconds);
    int on = 0;
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, &on);  // the file's internal tables cannot be edited
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, &on);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DQS_DML, 0, &on);  // "name" is a column, never a text
  }

  // Runs several statements, which must be texts of this program.
  void script(const std::string& text) {
    const std::lock_guard lock(mutex_);
    char* why = nullptr;
    if (sqlite3_exec(handle_.get(), text.c_str(), nullptr, nullptr, &why) == SQLITE_OK) return;
    const std::unique_ptr<char, void (*)(void*)> owner(why, &sqlite3_free);
    throw DatabaseError(why ? why : "unknown error");
  }

  template <class... T>
  Rows query(Sql sql, const T&... values) {
    Rows rows(*this, sql.text());
    int at = 0;
    (rows.bind(++at, values), ...);
    return rows;
  }
  // Returns the number of changed rows.
  template <class... T>
  int64_t run(Sql sql, const T&... values) {
    Rows rows = query(sql, values...);
    while (rows.next()) {
    }
    return sqlite3_changes64(handle_.get());
  }
  // Runs an INSERT; returns the new row's id.
  template <class... T>
  int64_t insert(Sql sql, const T&... values) {
    const std::lock_guard lock(mutex_);
    run(sql, values...);
    return sqlite3_last_insert_rowid(handle_.get());
  }
  // The first column of the first row, if there is one.
  template <class... T>
  std::optional<int64_t> integer(Sql sql, const T&... values) {
    Rows rows = query(sql, values...);
    if (!rows.next() || rows.is_null(0)) return std::nullopt;
    return rows.integer(0);
  }
  template <class... T>
  std::optional<std::string> text(Sql sql, const T&... values) {
    Rows rows = query(sql, values...);
    if (!rows.next() || rows.is_null(0)) return std::nullopt;
    return rows.text(0);
  }

 private:
  friend class Rows;
  friend class Transaction;
  static constexpr int kPatienceMilliseconds = 20000;  // while other connections write

  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
  std::recursive_mutex mutex_;
};

inline Rows::Rows(Database& db, std::string_view sql)
    : db_(&db), lock_(db.mutex_), statement_(nullptr, &sqlite3_finalize) {
  sqlite3_stmt* raw = nullptr;
  const int status =
      sqlite3_prepare_v3(db.handle_.get(), sql.data(), static_cast<int>(sql.size()), 0, &raw, nullptr);
  statement_.reset(raw);
  check(status);
}

inline void Rows::check(int status) const {
  if (status != SQLITE_OK) throw DatabaseError(sqlite3_errmsg(db_->handle_.get()));
}

inline bool Rows::next() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE) throw DatabaseError(sqlite3_errmsg(db_->handle_.get()));
  return false;
}

// A transaction: all or nothing, and no other connection writes meanwhile. It also keeps other threads from
// this connection.
class Transaction {
 public:
  explicit Transaction(Database& db) : db_(db), lock_(db.mutex_) { db_.script("BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (!done_) sqlite3_exec(db_.handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  // When it returns, the changes are on the disk.
  void commit() {
    db_.script("COMMIT");
    done_ = true;
  }

 private:
  Database& db_;
  std::unique_lock<std::recursive_mutex> lock_;
  bool done_ = false;
};

}  // namespace tinymlperf::board
