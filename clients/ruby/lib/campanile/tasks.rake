namespace :campanile do
  desc "Send what waits in the outbox. Exits with 1 if the server refused some of it, or can't be reached"
  task drain: :environment do
    sent = Campanile::Outbox.drain
    refused = Campanile::Outbox::Row.refused.count
    puts "#{sent} sent, #{refused} refused"
    Campanile::Outbox::Row.refused.limit(20).each { |row| warn "  #{row.id} #{row.verb} #{row.path}: #{row.problem}" }
    exit 1 if refused.positive?
  rescue Campanile::Error => error
    abort "campanile:drain: #{error.message}"
  end
end
