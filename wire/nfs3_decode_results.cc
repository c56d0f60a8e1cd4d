// Decoding of every procedure's results, for clients, proxies and tests.
#include "wire/codec.h"
#include "wire/nfs3.h"
#include "wire/nfs3_codec.h"

namespace slice::nfs3 {

using rpc::XdrReader;

using wire::decode_status;

bool decode_result(XdrReader& in, Status& status, GetattrOk& out) {
  if (decode_status(in, status)) decode(in, out.attributes);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, LookupOk& out) {
  if (decode_status(in, status)) {
    decode_handle(in, out.object);
    decode(in, out.attributes);
  }
  decode(in, out.directory);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, AccessOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.attributes);
  if (ok) out.access = in.u32();
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, ReadlinkOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.attributes);
  if (ok) out.target = in.text(kMaxPath);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, ReadOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.attributes);
  if (ok) {
    out.count = in.u32();
    out.eof = in.boolean();
    out.data = in.opaque(kMaxTransfer);
    if (out.count != out.data.size()) in.fail();
  }
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, WriteOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.wcc);
  if (ok) {
    out.count = in.u32();
    out.committed = decode_enum<Stable>(in, 0, 2);
    out.verifier = Verifier{in.u64()};
  }
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, CreatedOk& out) {
  if (decode_status(in, status)) {
    out.object.reset();
    if (in.boolean()) decode_handle(in, out.object.emplace());
    decode(in, out.attributes);
  }
  decode(in, out.directory);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, WccData& out) {
  decode_status(in, status);
  decode(in, out);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, RenameResult& out) {
  decode_status(in, status);
  decode(in, out.from);
  decode(in, out.to);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, LinkResult& out) {
  decode_status(in, status);
  decode(in, out.attributes);
  decode(in, out.directory);
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, FsstatOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.attributes);
  if (ok) {
    out.total_bytes = in.u64();
    out.free_bytes = in.u64();
    out.available_bytes = in.u64();
    out.total_files = in.u64();
    out.free_files = in.u64();
    out.available_files = in.u64();
    out.invariant_seconds = in.u32();
  }
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, FsinfoOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.attributes);
  if (ok) {
    out.rtmax = in.u32();
    out.rtpref = in.u32();
    out.rtmult = in.u32();
    out.wtmax = in.u32();
    out.wtpref = in.u32();
    out.wtmult = in.u32();
    out.dtpref = in.u32();
    out.max_file_size = in.u64();
    decode(in, out.time_delta);
    out.properties = in.u32();
  }
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, PathconfOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.attributes);
  if (ok) {
    out.link_max = in.u32();
    out.name_max = in.u32();
    out.no_trunc = in.boolean();
    out.chown_restricted = in.boolean();
    out.case_insensitive = in.boolean();
    out.case_preserving = in.boolean();
  }
  return in.complete();
}

bool decode_result(XdrReader& in, Status& status, CommitOk& out) {
  bool ok = decode_status(in, status);
  decode(in, out.wcc);
  if (ok) out.verifier = Verifier{in.u64()};
  return in.complete();
}

}  // namespace slice::nfs3
