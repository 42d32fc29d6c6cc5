"""E-mail: a mailbox by IMAP, sending by SMTP."""
