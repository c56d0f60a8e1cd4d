// Encoding of every procedure's results (RFC 1813 section 3.3); READDIR and READDIRPLUS: nfs3_readdir.h.
#include "wire/codec.h"
#include "wire/nfs3.h"

namespace slice::nfs3 {

using rpc::XdrWriter;

using wire::encode_status;

void encode_result(XdrWriter& out, const GetattrOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
}

void encode_result(XdrWriter& out, const LookupOk& ok) {
  encode_status(out, Status::kOk);
  out.opaque(ok.object);
  encode(out, ok.attributes);
  encode(out, ok.directory);
}

void encode_result(XdrWriter& out, const AccessOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.u32(ok.access);
}

void encode_result(XdrWriter& out, const ReadlinkOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.text(ok.target);
}

void encode_result(XdrWriter& out, const ReadOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.u32(ok.count);
  out.boolean(ok.eof);
  out.opaque(ok.data);
}

void encode_result(XdrWriter& out, const WriteOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.wcc);
  out.u32(ok.count);
  out.u32(static_cast<std::uint32_t>(ok.committed));
  out.u64(ok.verifier.value);
}

void encode_result(XdrWriter& out, const CreatedOk& ok) {
  encode_status(out, Status::kOk);
  out.boolean(ok.object.has_value());
  if (ok.object) out.opaque(*ok.object);
  encode(out, ok.attributes);
  encode(out, ok.directory);
}

void encode_result(XdrWriter& out, const FsstatOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.u64(ok.total_bytes);
  out.u64(ok.free_bytes);
  out.u64(ok.available_bytes);
  out.u64(ok.total_files);
  out.u64(ok.free_files);
  out.u64(ok.available_files);
  out.u32(ok.invariant_seconds);
}

void encode_result(XdrWriter& out, const FsinfoOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.u32(ok.rtmax);
  out.u32(ok.rtpref);
  out.u32(ok.rtmult);
  out.u32(ok.wtmax);
  out.u32(ok.wtpref);
  out.u32(ok.wtmult);
  out.u32(ok.dtpref);
  out.u64(ok.max_file_size);
  encode(out, ok.time_delta);
  out.u32(ok.properties);
}

void encode_result(XdrWriter& out, const PathconfOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.u32(ok.link_max);
  out.u32(ok.name_max);
  out.boolean(ok.no_trunc);
  out.boolean(ok.chown_restricted);
  out.boolean(ok.case_insensitive);
  out.boolean(ok.case_preserving);
}

void encode_result(XdrWriter& out, const CommitOk& ok) {
  encode_status(out, Status::kOk);
  encode(out, ok.wcc);
  out.u64(ok.verifier.value);
}

void encode_result(XdrWriter& out, Status status, const WccData& wcc) {
  encode_status(out, status);
  encode(out, wcc);
}

void encode_result(XdrWriter& out, Status status, const RenameResult& result) {
  encode_status(out, status);
  encode(out, result.from);
  encode(out, result.to);
}

void encode_result(XdrWriter& out, Status status, const LinkResult& result) {
  encode_status(out, status);
  encode(out, result.attributes);
  encode(out, result.directory);
}

void encode_failure(XdrWriter& out, Procedure procedure, Status status, const PostOpAttributes& attributes,
                    const WccData& wcc) {
  encode_status(out, status);
  switch (procedure) {
    case Procedure::kNull:
    case Procedure::kGetattr:
      break;
    case Procedure::kSetattr:
    case Procedure::kWrite:
    case Procedure::kCreate:
    case Procedure::kMkdir:
    case Procedure::kSymlink:
    case Procedure::kMknod:
    case Procedure::kRemove:
    case Procedure::kRmdir:
    case Procedure::kCommit:
      encode(out, wcc);
      break;
    case Procedure::kRename:
      encode(out, wcc);
      encode(out, WccData{});
      break;
    case Procedure::kLink:
      encode(out, attributes);
      encode(out, wcc);
      break;
    case Procedure::kLookup:
    case Procedure::kAccess:
    case Procedure::kReadlink:
    case Procedure::kRead:
    case Procedure::kReaddir:
    case Procedure::kReaddirplus:
    case Procedure::kFsstat:
    case Procedure::kFsinfo:
    case Procedure::kPathconf:
    case Procedure::kGetacl:
    case Procedure::kSetacl:
      encode(out, attributes);
      break;
  }
}

}  // namespace slice::nfs3
