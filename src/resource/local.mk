# Files of src/resource/, included by the top Makefile.am.
gb_core_sources += \
	src/resource/admission.c \
	src/resource/admission.h \
	src/resource/admission_parts.h \
	src/resource/apart.c src/resource/apart.h \
	src/resource/array_size.c src/resource/array_size.h \
	src/resource/backend.c \
	src/resource/backend.h \
	src/resource/bindings.c \
	src/resource/block_table.c \
	src/resource/block_table.h \
	src/resource/block_uses.c \
	src/resource/budget.c \
	src/resource/budget.h \
	src/resource/capture.h \
	src/resource/card.c src/resource/card.h \
	src/resource/contexts.c \
	src/resource/contexts.h \
	src/resource/credit.c \
	src/resource/credit.h \
	src/resource/direct.c \
	src/resource/ends.c \
	src/resource/enter.h \
	src/resource/events.c \
	src/resource/events.h \
	src/resource/exports.c \
	src/resource/estimates.c src/resource/estimates.h \
	src/resource/graph_memory.c \
	src/resource/graphs.c src/resource/graphs.h \
	src/resource/growth.c \
	src/resource/handles.c \
	src/resource/handles.h \
	src/resource/handles_parts.h \
	src/resource/hash.h \
	src/resource/ledger.c \
	src/resource/ledger.h \
	src/resource/limits.c src/resource/limits.h \
	src/resource/lock.h \
	src/resource/measured.c \
	src/resource/inherited.c src/resource/inherited.h \
	src/resource/other.c src/resource/other.h \
	src/resource/look.c src/resource/look.h \
	src/resource/mapped.c \
	src/resource/mappings.c \
	src/resource/mappings.h \
	src/resource/marks.c \
	src/resource/marks.h \
	src/resource/nap.h \
	src/resource/ordered.c \
	src/resource/pending.c \
	src/resource/pending.h \
	src/resource/pending_batch.c \
	src/resource/pending_ends.c \
	src/resource/pending_follow.c src/resource/pending_follow.h \
	src/resource/pending_parts.h \
	src/resource/pending_reuse.c \
	src/resource/pending_shares.c \
	src/resource/pending_slots.c \
	src/resource/pending_slots.h \
	src/resource/physical.c \
	src/resource/pools.c \
	src/resource/pools_blocks.c \
	src/resource/pools_credit.c \
	src/resource/pools_current.c \
	src/resource/pools.h \
	src/resource/regions.c \
	src/resource/regions.h \
	src/resource/resource.c \
	src/resource/resource.h \
	src/resource/thread.c src/resource/thread.h \
	src/resource/sole.c src/resource/sole.h \
	src/resource/uses.c src/resource/uses.h
