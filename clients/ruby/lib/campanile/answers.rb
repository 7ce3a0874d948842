module Campanile
  # The number on the icon (docs/badge.md). `tenants` is nil unless asked for.
  Badge = Struct.new(:count, :unread_count, :version, :updated_at, :tenants, keyword_init: true) do
    def self.of(members) = members && new(**members.transform_keys(&:to_sym).slice(*self.members), updated_at: Answers.time(members["updated_at"]))
  end

  # One entry of an inbox, as the server answered it. What a later server adds is reached with `[]`.
  class Notification
    def initialize(members, is_replayed: false)
      @members, @is_replayed = members, is_replayed
    end

    %w[id user_id title body subtitle image_url category deep_link data external_id].each do |name|
      define_method(name) { @members[name] }
    end

    %w[created_at edited_at read_at].each do |name|
      define_method(name) { Answers.time(@members[name]) }
    end

    # The user's number after the creation; nil where the answer has none.
    def badge = Badge.of(@members["badge"])

    def read? = !@members["read_at"].nil?

    # Whether an earlier attempt with this Idempotency-Key created it.
    def replayed? = @is_replayed

    def [](name) = @members[name.to_s]

    def to_h = @members

    def ==(other) = other.is_a?(Notification) && to_h == other.to_h
  end

  # One page of an inbox, newest first. `next_cursor` is nil on the last one.
  Page = Struct.new(:notifications, :next_cursor, :badge)

  # What was handled elsewhere, as ids, and the number.
  Reconciliation = Struct.new(:handled, :badge)

  # How many notifications were unread that were marked read, which is too few where an answer was lost; and the number after it.
  Read = Struct.new(:read, :badge)

  # How the members of an answer are read.
  module Answers
    def self.time(text) = text && Time.iso8601(text)
  end
end
